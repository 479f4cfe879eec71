#!/usr/bin/env python3
"""How fast stores are loaded and asked, and recordings uploaded: rows a second of processor time, on SQLite and on a
ClickHouse server; MB a second to nginx, beside curl; what an upload costs the program that is recorded.

Usage: bench/fleet_speed.py BUILD [--only load|stacks|report|upload|share] [--rounds 5] [--directory D]
Processor times are of mallow, of the server, and of both: the machine may do other work. Needs clickhouse-server, nginx and
curl for what they take part in. Nothing that it makes outlives it."""
import argparse
import glob
import os
import re
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

from fleet import Server, fill, used

BLOCKS, STACKS, UPLOAD_OPERATIONS, SHARE_OPERATIONS = 4000000, 2000, 20000000, 6000000
NGINX = """daemon off; master_process off; pid {0}/pid; error_log {0}/errors; events {{}} http {{ access_log off;
client_body_temp_path {0}/body; proxy_temp_path {0}/1; fastcgi_temp_path {0}/2; uwsgi_temp_path {0}/3; scgi_temp_path {0}/4;
server {{ listen 127.0.0.1:{1}; root {0}/root; client_max_body_size 0;
location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }} }}"""


class Nginx:
    def __init__(self, directory):
        self.path = os.path.join(directory, "nginx")
        self.root = os.path.join(self.path, "root")
        os.makedirs(self.root, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        with open(os.path.join(self.path, "conf"), "w", encoding="ascii") as f:
            f.write(NGINX.format(self.path, self.port))
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "nginx", "-p", self.path, "-c", f.name],
                                        stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{self.port}/"
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                sys.exit("nginx ended")
            time.sleep(0.05)

    def used(self):
        return used(self.process.pid)

    def forget(self):
        shutil.rmtree(self.root)
        os.mkdir(self.root)

    def end(self):
        self.process.kill()
        self.process.wait()


class Speed:
    def __init__(self, o):
        self.o = o
        self.mallow = os.path.join(o.build, "mallow")
        self.program = os.path.join(o.build, "bench", "stacks")
        self.directory = tempfile.mkdtemp(prefix="mallow-bench-speed-", dir=o.directory)
        self.environment = {k: v for k, v in os.environ.items() if k.lower() not in ("http_proxy", "all_proxy")}

    def path(self, name):
        return os.path.join(self.directory, name)

    def run(self, *command, server=None):
        """(processor time of the command, of the server, time that passed, its output)"""
        before, began = server.used() if server else 0, time.monotonic()
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        out, said = p.stdout.read(), p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        took = time.monotonic() - began
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode:
            sys.exit(f"{' '.join(command)}: {p.returncode}\n{said}")
        return (usage.ru_utime + usage.ru_stime, server.used() - before if server else 0, took, out + said)

    def record(self, name, *arguments):
        self.run(self.mallow, "record", "-q", "--keep-raw", "-o", self.path(name), "--", self.program, *map(str, arguments))
        return self.path(name)

    def stores(self):
        """(name, where, its server) of a fresh store of each kind."""
        path = self.path("store.sqlite")
        if os.path.exists(path):
            os.unlink(path)
        self.run(self.mallow, "fleet", "init", "--store", path)
        yield "SQLite", path, None
        if not shutil.which("clickhouse-server"):
            print("no clickhouse-server here")
            return
        server = Server(8 << 30, self.directory)
        try:
            where = f"http://127.0.0.1:{server.port}/fleet"
            self.run(self.mallow, "fleet", "init", "--store", where)
            yield "ClickHouse", where, server
        finally:
            server.end()

    # ---- loading ----

    def load(self):
        recording = self.record("blocks.mlw", STACKS, BLOCKS)
        self.run(self.mallow, "report", recording)  # seals
        for name, where, server in self.stores():
            times = []
            for i in range(self.o.rounds):
                mine, its, _, _ = self.run(self.mallow, "fleet", "load", "--events", "--host", f"h{i}", "--store", where,
                                           recording, server=server)
                times.append((mine, its, mine + its))
            rates = [BLOCKS / statistics.median(t) / 1e6 if any(t) else 0 for t in zip(*times)]
            print(f"load --events, {BLOCKS:,} rows, {name}: million rows a second of processor time: mallow {rates[0]:.2f},"
                  f" server {rates[1]:.2f}, both {rates[2]:.2f}", flush=True)

    def stacks(self):
        recording = self.record("stacks.mlw", 10000, 200000)
        self.run(self.mallow, "report", recording)
        for name, where, server in self.stores():
            times = []
            for i in range(self.o.rounds):
                mine, its, _, _ = self.run(self.mallow, "fleet", "load", "--host", f"h{i}", "--store", where, recording,
                                           server=server)
                times.append((mine, its))
            print(f"load, a process of 10,000 stacks, {name}: first {times[0][0]:.2f} s, median"
                  f" {statistics.median(t[0] for t in times):.2f} s; server {statistics.median(t[1] for t in times):.2f} s", flush=True)

    # ---- asking ----

    @staticmethod
    def fill_file(path, processes, stacks):
        db = sqlite3.connect(path)
        db.executemany("INSERT INTO frame VALUES(?,?)", ((i, f'{{"function":"f{i}","file":"s.c","line":{i},"module":"s",'
                                                          '"inlined":false}') for i in range(1, stacks + 1)))
        db.executemany("INSERT INTO site VALUES(?,0,?,?,0)", ((i, i, i) for i in range(1, stacks + 1)))
        ids = sorted((i * 0x9e3779b97f4a7c15) % 2**63 for i in range(1, stacks + 1))
        db.executemany("INSERT INTO stack VALUES(?,0,?,?,2)", ((s, i, i) for i, s in enumerate(ids, 1)))
        for p in range(1, processes + 1):
            db.execute(f"INSERT INTO process VALUES({p},{p},0,'host-{p // 2}','s','cafe','/s','glibc','[]',{p},1,{p * 10**9},"
                       f"{p * 10**9 + 5},1,9,0,9,0,{stacks},9,9,9,9,9,9,9,9,1000000,0,0,0)")
            db.executemany("INSERT INTO figure VALUES(?,?,?,?,?,?,?,?,?,?)",
                           ((p, s, 9, i * 4000, i * 1000 + p, 3, i % 3 * 8, i % 3, 0, i * 50) for i, s in enumerate(ids, 1)))
        db.commit()
        db.close()

    def report(self):
        for name, where, server in self.stores():
            if server:
                o = argparse.Namespace(hosts=500, processes=2, stacks=5000)
                fill(server, o)
            else:
                self.fill_file(where, 1000, 5000)
            times = [self.run(self.mallow, "fleet", "report", "--json", "--store", where, server=server)[:3]
                     for _ in range(self.o.rounds)]
            mine, its, took = (statistics.median(t) for t in zip(*times))
            print(f"report, 1,000 processes of 5,000 stacks, {name}: processor time {mine:.2f} s, server {its:.2f} s;"
                  f" {took:.2f} s passed", flush=True)

    # ---- uploads ----

    def upload(self):
        recording = self.record("upload.mlw", 20000, UPLOAD_OPERATIONS)
        size = os.path.getsize(recording) / 1e6
        server = Nginx(self.directory)
        try:
            results = {"push": [], "curl": []}
            for _ in range(self.o.rounds):
                for name in results:
                    server.forget()
                    command = ([self.mallow, "push", "-q", "--segments", recording, "--to", server.url + "r/"] if name == "push"
                               else ["curl", "-sSf", "-T", recording, server.url + "r/upload"])
                    results[name].append(self.run(*command, server=server)[:3])
            for name, times in results.items():
                mine, its, took = (statistics.median(t) for t in zip(*times))
                print(f"{name} of {size:.0f} MB to nginx: {size / mine:.0f} MB a second of its processor time, {size / its:.0f} of"
                      f" nginx's, {size / (mine + its):.0f} of both's; {size / took:.0f} MB/s as time passed", flush=True)
            print("push takes", f"{statistics.median(a[2] / b[2] for a, b in zip(results['push'], results['curl'])):.2f}",
                  "times as long as curl", flush=True)
        finally:
            server.end()

    def share(self):
        """The processor time of a recorded program with an upload, less that without, of rounds in turn."""
        server = Nginx(self.directory)
        script = '"$@"; times'  # of its children
        try:
            ratios, sent = [], []
            for turn in range(self.o.rounds):
                took = {}
                for to in ([], ["--to", server.url + "r/"])[::1 if turn % 2 else -1]:
                    server.forget()
                    out = self.run(self.mallow, "record", "-q", "--keep-raw", *to, "-o", self.path("share.mlw"), "--", "bash", "-c",
                                   script, "_", self.program, "20000", str(SHARE_OPERATIONS))
                    last = [re.findall(r"(\d+)m([\d.]+)s", line) for line in out[3].splitlines()]
                    last = [t for t in last if len(t) == 2][-1]
                    took[bool(to)] = sum(int(m) * 60 + float(s) for m, s in last)
                    if to:
                        sent.append(sum(os.path.getsize(p) for p in glob.glob(server.root + "/r/*/*.seg")))
                    os.unlink(self.path("share.mlw"))
                ratios.append(took[True] / took[False])
            ratios.sort()
            print(f"record --to, {statistics.median(sent) / 1e6:.0f} MB from a program of {took[False]:.1f} s of processor time: with"
                  f" the upload it takes {statistics.median(ratios):.3f} times as much ({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)
        finally:
            server.end()

    def end(self):
        shutil.rmtree(self.directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parts = ("load", "stacks", "report", "upload", "share")
    parser.add_argument("--only", choices=parts)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory")
    o = parser.parse_args()
    speed = Speed(o)
    try:
        for part in parts:
            if not o.only or o.only == part:
                getattr(speed, part)()
    finally:
        speed.end()


if __name__ == "__main__":
    main()
