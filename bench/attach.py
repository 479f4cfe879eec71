#!/usr/bin/env python3
"""What it costs to be attached to: `mallow watch -p` and `record -p`, beside the preloaded libraries and `--how probe`.

usage: attach.py BUILD [cost] [time] [servers] [--rounds N] [--only WORD] [--json FILE]

cost     processor time of a malloc and its free, in a program that is attached to while it waits; beside it the same program
         preloaded. Rounds of all variants in changing order; medians of each round's ratio.
time     how long the borrowed thread is away, and how much of that it works, over rounds of attaching and leaving.
servers  redis, postgres, nginx, node, python, a C++ and a Rust server under load: attached to, watched, recorded, left, in every
         round. Each answer is compared with the one that was given before. Processor time of the server for a request, as a
         ratio to the rounds' own plain part; and requests in a second.

Without a word all three. Exits 0 whatever the figures are, 1 when something could not be run or an answer was another."""
import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import servers


def table(head, rows):
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
    print(flush=True)


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({max(values):.{digits}f})" if values else "-"


class Tool:
    """mallow beside a process, from the moment on at which it says that it has begun."""

    def __init__(self, mallow, kind, pid, file=None, user=None):
        options = {"watch": ["watch", "--json", "--every", "1h", "-p", str(pid), "--how", "inject"],
                   "record": ["record", "--keep-raw", "-o", file, "-p", str(pid), "--how", "inject"],
                   "probe": ["record", "--keep-raw", "-o", file, "-p", str(pid), "--how", "probe", "--no-follow"]}
        self.file = file
        self.process = subprocess.Popen([mallow, *options[kind]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, user=user)
        self.said = self.process.stderr.readline()
        if "attached to process" not in self.said and "recording process" not in self.said:
            self.process.wait(60)
            raise RuntimeError(self.said.strip())
        found = re.search(r"was away for ([\d.]+) ms \(([\d.]+) ms at work", self.said)
        self.away_ms, self.work_ms = (float(found[1]), float(found[2])) if found else (None, None)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        if self.process.returncode:
            raise RuntimeError(f"status {self.process.returncode}: {err[-500:]}")
        return out


# ---- cost ----

class Asked:
    def __init__(self, argv, **env):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        bufsize=1, env={**os.environ, **env})

    def ask(self, what, n):
        self.process.stdin.write(f"{what} {n}\n")
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(600)
        self.process.stdout.close()


def cost(options, folder, result):
    mallow, program = os.path.join(options.build, "mallow"), os.path.join(options.build, "bench", "asked")
    file = {k: os.path.join(folder, k + ".mlw") for k in ("preloaded", "attached", "preloaded-churn", "attached-churn")}
    library = os.path.join(options.build, "lib", "libmallow-watch.so")
    running, tools = {}, []
    running["plain"] = Asked([program])
    running["watch, preloaded"] = Asked([program], LD_PRELOAD=library)
    running["record, preloaded"] = Asked([mallow, "record", "-q", "--keep-raw", "-o", file["preloaded"], "--", program])
    for kind in ("watch", "record"):
        running[kind + ", attached"] = p = Asked([program])
        p.ask("pairs", 1000)
        tools.append(Tool(mallow, kind, p.process.pid, file["attached"]))
    counts = {"pairs": {"plain": 4000000, "watch": 4000000, "record": 300000}, "churn": {"plain": 400000, "watch": 400000, "record": 100000}}
    ns = {}
    for r in range(-1, options.rounds):
        order = [(what, name) for what in counts for name in running]
        random.Random(r).shuffle(order)
        for what, name in order:
            measured = running[name].ask(what, counts[what][name.split(",")[0]])
            if r >= 0:
                ns.setdefault((what, name), []).append(measured)
    for p in running.values():
        p.end()
    for t in tools:
        t.process.wait(600)
        t.process.stdout.close()
        t.process.stderr.close()
    print(f"cost: ns of processor time for a malloc and its free; medians of {options.rounds} rounds\n")
    rows = []
    for name in running:
        rows.append([name] + [f"{statistics.median(ns[what, name]):.2f}" for what in counts] +
                    [f"{statistics.median(a - b for a, b in zip(ns[what, name], ns[what, 'plain'])):+.2f}" for what in counts])
    table(["", "pairs", "churn", "pairs, more than plain", "churn, more than plain"], rows)
    ratio = {what: statistics.median(a / b for a, b in zip(ns[what, "record, attached"], ns[what, "record, preloaded"])) for what in counts}
    added = statistics.median(a - b for a, b in zip(ns["pairs", "watch, attached"], ns["pairs", "plain"]))
    print(f"attached watch adds {added:.2f} ns to a pair (bar 1.5: {'met' if added <= 1.5 else 'NOT met'})")
    for what, x in ratio.items():
        print(f"attached record to preloaded record, {what}: {x:.3f} (bar 1.05: {'met' if x <= 1.05 else 'NOT met'})")
    print(flush=True)
    result["cost"] = {"ns": {f"{w}: {n}": v for (w, n), v in ns.items()}, "watch_added_ns": added, "record_ratio": ratio}


# ---- time ----

def schedstat(pid):
    """Nanoseconds on a processor, of each thread."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
            found[tid] = int(f.read().split()[0])
    return found


def away(options, folder, result):
    """The program waits all the time, so what its thread works is the attaching."""
    mallow, program = os.path.join(options.build, "mallow"), os.path.join(options.build, "bench", "asked")
    rows, rounds = [], options.rounds * 5
    result["time"] = {}
    for kind in ("watch", "record"):
        first, later = {"away": [], "worked": []}, {"away": [], "worked": []}
        for r in range(rounds):
            p = Asked([program])
            p.ask("pairs", 1000)
            for to in (first, later):
                before = schedstat(p.process.pid)
                tool = Tool(mallow, kind, p.process.pid, os.path.join(folder, "time.mlw"))
                after = schedstat(p.process.pid)
                to["away"].append(tool.away_ms)
                to["worked"].append(sum(after[t] - before.get(t, 0) for t in after) / 1e6)
                tool.end()
            p.end()
        for name, to in (("first", first), ("again", later)):
            rows.append([f"{kind}, {name}", spread(to["away"], 2), f"{statistics.quantiles(to['away'], n=20)[-1]:.2f}",
                         spread(to["worked"], 2)])
        result["time"][kind] = {"first": first, "again": later}
    print(f"time: ms that the borrowed thread was away; {rounds} rounds each; load {os.getloadavg()[0]:.0f} on "
          f"{len(os.sched_getaffinity(0))} processors\n")
    table(["", "away: median (most)", "19 of 20 below", "of which it worked"], rows)


# ---- servers ----

class Load(threading.Thread):
    """Asks a server without a pause, and compares each answer with the first that the same question had."""

    def __init__(self, server, client, known):
        super().__init__(daemon=True)
        self.server, self.client, self.known = server, client, known
        self.asked, self.wrong, self.stop = 0, [], False

    def run(self):
        r = random.Random(self.client)
        try:
            while not self.stop:
                n = r.randrange(1, 400) * 2 + self.client
                answer = self.server.ask(n, self.client)
                if self.known.setdefault((self.client, n), answer) != answer or not answer:
                    self.wrong.append((n, answer[:200]))
                    return
                self.asked += 1
        except Exception as trouble:  # the server died, or hangs
            self.wrong.append((None, repr(trouble)))


def processor_ns(pid):
    return time.clock_gettime_ns((~pid << 3) | 2)


def part(server, loads, seconds):
    """Requests, processor time for one in us, requests in a second."""
    asked, ns, start = sum(l.asked for l in loads), processor_ns(server.pid), time.monotonic()
    while time.monotonic() - start < seconds or sum(l.asked for l in loads) - asked < 20:
        if any(l.wrong for l in loads) or time.monotonic() - start > 120:
            raise RuntimeError(f"the server answered {[l.wrong for l in loads]}")
        time.sleep(0.05)
    asked, ns, wall = sum(l.asked for l in loads) - asked, processor_ns(server.pid) - ns, time.monotonic() - start
    return asked, ns / asked / 1000, asked / wall


def checked(mallow, file, options):
    """What a recording says of itself: (calls, what is wrong with it)."""
    p = subprocess.run([mallow, "report", "--json", "-n", "1", file], capture_output=True, text=True, check=False)
    if p.returncode:
        return 0, p.stderr[-300:]
    report = json.loads(p.stdout)
    wrong = [f"{report['lost_events']} lost"] if report["lost_events"] and "probe" not in options else []
    wrong += [f"{x['unknown_frees']} unknown frees" for x in report["processes"] if x["unknown_frees"] and "probe" not in options]
    return report["events"], ", ".join(wrong)


def serve(options, name, folder, result):
    mallow = os.path.join(options.build, "mallow")
    kinds = ["plain", "watch", "record"] + (["probe"] if os.geteuid() == 0 else [])
    found = {k: [] for k in kinds}
    facts = {"away_ms": [], "work_ms": [], "refused": {}, "wrong": [], "calls": 0, "answers": 0}
    with servers.ALL[name](options.build, folder) as server:
        loads = [Load(server, i, {}) for i in range(1 if name == "postgres" else 2)]
        for load in loads:
            load.start()
        part(server, loads, options.seconds)
        try:
            for r in range(options.rounds):
                order = list(kinds)
                random.Random(r).shuffle(order)
                for kind in order:
                    if kind in facts["refused"]:
                        continue
                    # the recording of a server of another user is that user's; probes are root's
                    user = server.user if kind != "probe" else None
                    with tempfile.TemporaryDirectory(prefix="mallow-bench-file-", dir="/tmp") as place:
                        if user:
                            shutil.chown(place, user)
                        try:
                            tool = None if kind == "plain" else Tool(mallow, kind, server.pid, os.path.join(place, "r.mlw"), user)
                        except RuntimeError as why:
                            facts["refused"][kind] = str(why)
                            continue
                        found[kind].append(part(server, loads, options.seconds))
                        if tool:
                            tool.end()
                            facts["away_ms"] += [tool.away_ms] if tool.away_ms is not None else []
                            facts["work_ms"] += [tool.work_ms] if tool.work_ms is not None else []
                        if kind in ("record", "probe"):
                            calls, wrong = checked(mallow, tool.file, kind)
                            facts["wrong"] += [f"{kind}: {wrong}"] if wrong else []
                            facts["calls"] = max(facts["calls"], calls)
            part(server, loads, options.seconds)
        finally:
            for load in loads:
                load.stop = True
            for load in loads:
                load.join(60)
                facts["wrong"] += [str(w) for w in load.wrong]
            facts["answers"] = sum(l.asked for l in loads)
    result[name] = {"parts": found, **facts}
    return found, facts


def all_servers(options, result):
    rows, said, broken = [], [], False
    result["servers"] = {}
    for name in servers.ALL:
        if options.only and options.only not in name:
            continue
        try:
            with servers.folder_for(name) as folder:
                found, facts = serve(options, name, folder, result["servers"])
        except servers.Missing as missing:
            said.append(f"{name}: left out: {missing}")
            continue
        except (RuntimeError, OSError, subprocess.SubprocessError) as trouble:
            said.append(f"{name}: could not be run: {trouble}")
            broken = True
            continue

        def ratio(kind, what, found=found):
            pairs = [(a[what], b[what]) for a, b in zip(found.get(kind, []), found["plain"])]
            return f"{statistics.median(a / b for a, b in pairs):.2f}" if pairs else "refused" if kind in facts["refused"] else "-"
        rows.append([name, f"{statistics.median(p[1] for p in found['plain']):.0f} us", *(ratio(k, 1) for k in ("watch", "record", "probe")),
                     f"{statistics.median(p[2] for p in found['plain']):.0f}", *(ratio(k, 2) for k in ("watch", "record", "probe")),
                     spread(facts["away_ms"]), spread(facts["work_ms"]), f"{facts['answers']:,}", "; ".join(facts["wrong"]) or "all"])
        said += [f"{name}, {kind}: {why}" for kind, why in facts["refused"].items()]
        broken |= bool(facts["wrong"])
        print(f"{name}: done", file=sys.stderr, flush=True)
    print(f"servers under load, attached to and left in each of {options.rounds} rounds; processor time for a request, as a ratio to\n"
          "plain; requests in a second, as a ratio to plain; ms that the borrowed thread was away, and\n"
          "how many of them it was at work: median (most)\n")
    table(["", "a request", "watch", "record", "probe", "in a second", "watch", "record", "probe", "away", "at work", "answers", "equal"], rows)
    for line in said:
        print(line)
    print(flush=True)
    return broken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("parts", nargs="*", choices=["cost", "time", "servers", []])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each part of a server's round")
    parser.add_argument("--only")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    parts, result, broken = options.parts or ["cost", "time", "servers"], {}, False
    with tempfile.TemporaryDirectory(prefix="mallow-bench-") as folder:
        if "cost" in parts:
            cost(options, folder, result)
        if "time" in parts:
            away(options, folder, result)
    if "servers" in parts:
        broken = all_servers(options, result)
    if options.json:
        with open(options.json, "w", encoding="ascii") as f:
            json.dump(result, f, indent=1)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
