#!/usr/bin/env python3
"""A store of a fleet that does not exist, with known truth: figures of many processes on many hosts, and reports of
`mallow watch`, made by a ClickHouse server itself, in the tables that `mallow fleet init` made. Then asks what a person
would ask, compares each answer with the truth, and prints rows, bytes on disk and times.

Usage: bench/fleet.py MALLOW [--hosts 1000] [--processes 20] [--stacks 5000] [--reports 10] [--memory BYTES] [--directory D]
The default is 100 million figures. Needs clickhouse-server; nothing that it makes outlives it."""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

LEAKING_HOST, LEAKING_STACK, LEAK, STEP = 123, 77, 1 << 20, 1000
CONFIGURATION = """<?xml version="1.0"?>
<yandex><logger><level>warning</level><console>1</console></logger><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
<listen_host>127.0.0.1</listen_host><path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size></yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex><profiles><default><max_memory_usage>{memory}</max_memory_usage><max_threads>2</max_threads></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default></users><quotas><default></default></quotas></yandex>
"""


def used(pid):
    """Processor time of a process so far, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, memory, directory):
        self.path = tempfile.mkdtemp(prefix="mallow-bench-fleet-", dir=directory)
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.port, tcp = (s.getsockname()[1] for s in held)
        for s in held:
            s.close()
        for name in ("data", "tmp"):
            os.mkdir(os.path.join(self.path, name))
        for name, text in (("config.xml", CONFIGURATION.format(http=self.port, tcp=tcp, path=self.path)),
                           ("users.xml", USERS.format(memory=memory))):
            with open(os.path.join(self.path, name), "w") as f:
                f.write(text)
        with open(os.path.join(self.path, "output"), "w") as out:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "clickhouse-server",
                                             "--config-file=config.xml"], cwd=self.path, stdout=out, stderr=out)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping").read()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("clickhouse-server ended: " + open(os.path.join(self.path, "output")).read()[-500:])
                time.sleep(0.1)

    def ask(self, sql, body=b""):
        url = f"http://127.0.0.1:{self.port}/?database=fleet"
        with urllib.request.urlopen(url, sql.encode() + body) as answer:
            return answer.read().decode().split()

    def used(self):
        return used(self.process.pid)

    def bytes_of(self, table):
        return sum(int(v) for v in self.ask(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND"
                                            f" database = 'fleet' AND table = '{table}'"))

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.path)


def fill(server, o):
    """Site of stack s: s + 1. Each process has every stack. Figures have noise, as real ones do, which two processes
    in a row make up for: peaks of a pair are 255 above the step of the stack twice."""
    total = o.hosts * o.processes
    frame = ('concat(\'{"function":"function_\', toString(number), \'","file":"service.c","line":\', toString(number + 1),'
             ' \',"module":"service","inlined":false}\')')
    server.ask(f"INSERT INTO frame SELECT number + 1, {frame} FROM system.numbers LIMIT {o.stacks}")
    server.ask(f"INSERT INTO site SELECT number + 1, toUInt64(0), number + 1, number + 1, toUInt64(1) FROM system.numbers LIMIT {o.stacks}")
    server.ask("INSERT INTO stack SELECT intHash64(number + 1), toUInt64(0), number + 1, number + 1, toUInt64(2) FROM system.numbers"
               f" LIMIT {o.stacks}")
    began = time.monotonic()
    for first in range(0, total, 400):  # a statement for 400 processes
        n = min(400, total - first)
        server.ask(f"INSERT INTO figure SELECT p + 1 AS attempt, intHash64(s + 1) AS stack, intHash64(p) AS process, h + 1 AS host,"
                   " s + 1 + noise % 64 AS calls, (s + 1) * 4000 + noise % 65536 AS allocated_bytes,"
                   f" (s + 1) * {STEP} + if(p % 2 = 0, pair % 256, 255 - pair % 256) AS peak_bytes, pair % 7 AS peak_blocks,"
                   f" if(h = {LEAKING_HOST} AND s = {LEAKING_STACK}, toUInt64({LEAK}), if(s % 3 = 0, toUInt64(8), toUInt64(0))) AS end_bytes,"
                   f" toUInt64(end_bytes > 0) AS end_blocks, toUInt64(s % 5) AS temporary,"
                   " peak_bytes * 5 AS byte_seconds FROM"
                   f" (SELECT {first} + intDiv(number, {o.stacks}) AS p, number % {o.stacks} AS s,"
                   f" intHash64(p * {o.stacks} + s) AS noise, intHash64(intDiv(p, 2) * {o.stacks} + s) AS pair,"
                   f" intDiv(p, {o.processes}) AS h FROM system.numbers LIMIT {n * o.stacks})")
    took = time.monotonic() - began
    calls = o.stacks * (o.stacks + 1) // 2
    server.ask("INSERT INTO process SELECT intHash64(number) AS key, toUInt64(1), number + 1, toUInt64(0),"
               f" concat('host-', toString(intDiv(number, {o.processes}))), 'service', if(number % 10 = 0, 'beef', 'cafe'),"
               " '/usr/bin/service', 'glibc', '[]', toUInt64(number % 30000), toUInt64(1),"
               " 1700000000000000000 + number * 1000000000, 1700000100000000000 + number * 1000000000, toUInt64(1),"
               f" toUInt64({calls}), toUInt64(0), toUInt64({calls * 64}), toUInt64(0), toUInt64({o.stacks}),"
               f" toUInt64({calls}), toUInt64({calls * 64}), toUInt64({calls * STEP}), toUInt64(1), toUInt64(0), toUInt64(0),"
               f" toUInt64(0), toUInt64({calls * STEP * 5}), toUInt64(1000000000), toUInt64(0), toUInt64(0), toUInt64(0), emptyArrayString(), emptyArrayString(), emptyArrayString(), emptyArrayString()"
               f" FROM system.numbers LIMIT {total}")
    return total * o.stacks, took


def fill_reports(server, o):
    """o.reports of each host, of 100 call sites; the estimate grows by 1000 with each."""
    total = o.hosts * o.reports
    began = time.monotonic()
    server.ask("INSERT INTO watched_site SELECT intDiv(number, 100) + 1, number % 100, number % 100 + 1,"
               f" 100000 + 1000 * (intDiv(number, 100) % {o.reports}), toUInt64(90000), toUInt64(300000), toUInt64(10),"
               f" toUInt64(5), toUInt64(64), toUInt64(9), toUInt64(0), toUInt64(0) FROM system.numbers LIMIT {total * 100}")
    server.ask(f"INSERT INTO watched SELECT number + 1, intDiv(number, {o.reports}) + 1,"
               f" concat('host-', toString(intDiv(number, {o.reports}))), 'service', '/usr/bin/service', '[]', 'old', '',"
               f" toUInt64(7), toUInt64(1700000000000000000), 1700000000000000000 + 60000000000 * (number % {o.reports}),"
               f" toUInt64(524288), toUInt64(0), toUInt64(100), 100 * (100000 + 1000 * (number % {o.reports})),"
               " toUInt64(9000000), toUInt64(30000000), toUInt64(1000), toUInt64(500), toUInt64(6400), emptyArrayString(),"
               f" emptyArrayString() FROM system.numbers LIMIT {total}")
    return total * 100, time.monotonic() - began


def ask(mallow, server, *arguments):
    """The answer, the time that passed, and the server's processor time."""
    began, before = time.monotonic(), server.used()
    p = subprocess.run([mallow, "fleet", *arguments, "--json", "-n", "10", "--store",
                        f"http://127.0.0.1:{server.port}/fleet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    took = time.monotonic() - began
    return (json.loads(p.stdout) if p.returncode == 0 else p.stderr.strip()), took, server.used() - before


def site_number(site):
    return int(site["frames"][site["call_site"]]["function"].split("_")[1])


def questions(o):
    """(name, arguments, whether the answer is the truth)."""
    total = o.hosts * o.processes
    top = [o.stacks - 1 - i for i in range(10)]
    newer = 1700000000 + total - total // 10

    def peak(stack, processes):
        return (stack + 1) * STEP * processes + processes // 2 * 255

    def report(a):
        return ([site_number(s) for s in a["sites"]] == top and a["processes"] == total and a["hosts"] == o.hosts
                and all(s["peak_bytes"] == peak(site_number(s), total) and s["processes"] == total for s in a["sites"]))

    def one_host(a):
        return a["processes"] == o.processes and a["sites"][0]["peak_bytes"] == peak(o.stacks - 1, o.processes)

    def leaks(a):
        first = a["sites"][0]
        return [site_number(first), first["hosts"], first["most_host"], first["end_live_bytes"]] == [
            LEAKING_STACK, 1 if LEAKING_STACK % 3 else o.hosts, f"host-{LEAKING_HOST}", LEAK * o.processes]

    def distribution(a):
        return all(s["sum"] == peak(site_number(s), total) and s["processes"] == total and
                   0 <= s["minimum"] - (site_number(s) + 1) * STEP <= s["median"] - (site_number(s) + 1) * STEP <= 255
                   for s in a["sites"])

    def halves(a):
        """The processes of the leaking host are in one of them."""
        [site] = a["sites"]
        more = LEAK - (8 if LEAKING_STACK % 3 == 0 else 0)
        more = more if LEAKING_HOST * o.processes >= total // 2 else -more
        return [site_number(site), a["old"]["processes"], site["growth_bytes"]] == [
            LEAKING_STACK, total // 2, round(more * o.processes / (total // 2), 3)]

    def watched(a):
        return a["estimated_bytes"] == o.hosts * 100 * (100000 + 1000 * (o.reports - 1)) and a["processes"] == o.hosts
    return [("report, all", ["report"], report), ("report, one host", ["report", "--host", "host-5"], one_host),
            ("report, the last tenth", ["report", "--since", f"@{newer}"], lambda a: a["processes"] == total // 10),
            ("report --leaks", ["report", "--leaks"], leaks),
            ("report --distribution", ["report", "--distribution"], distribution),
            ("diff, a tenth of the hosts", ["diff", "--old", f"until=@{1700000000 + total // 10}", "--new", f"since=@{newer}"],
             lambda a: a["sites"] == [] or len(a["sites"]) == (1 if total // 10 > LEAKING_HOST * o.processes else 0)),
            ("diff, half against half", ["diff", "--by", "end", "--old", f"until=@{1700000000 + total // 2}", "--new",
                                         f"since=@{1700000000 + total // 2}"], halves),
            ("report --watched", ["report", "--watched", "old"], watched)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mallow")
    for name, default in (("hosts", 1000), ("processes", 20), ("stacks", 5000), ("reports", 10), ("memory", 8 << 30)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--directory")
    o = parser.parse_args()
    if o.processes % 2:
        sys.exit("an even number of processes is needed")
    if o.hosts <= LEAKING_HOST or o.stacks <= LEAKING_STACK:
        sys.exit(f"more than {LEAKING_HOST} hosts and {LEAKING_STACK} stacks are needed")
    server = Server(o.memory, o.directory)
    wrong = 0
    try:
        subprocess.run([o.mallow, "fleet", "init", "--store", f"http://127.0.0.1:{server.port}/fleet"], check=True)
        for table, (rows, took) in (("figure", fill(server, o)), ("watched_site", fill_reports(server, o))):
            size = server.bytes_of(table)
            print(f"{table}: {rows:,} rows made in {took:.1f} s, {size:,} bytes on disk, {size / rows:.1f} a row", flush=True)
        for name, arguments, check in questions(o):
            answer, took, used = ask(o.mallow, server, *arguments)
            good = isinstance(answer, dict) and check(answer)
            wrong += not good
            print(f"{name}: {took:.2f} s, {used:.2f} s of processor time, {'as known' if good else 'WRONG: ' + str(answer)[:300]}", flush=True)
    finally:
        server.end()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
