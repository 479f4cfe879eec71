#!/usr/bin/env python3
"""The table of `make bench`: what mallow costs, as ratios in one run, beside its bars and its peers.

usage: bench.py BUILD [--rounds N] [--seconds S] [--only WORD] [--json FILE]

Each round runs every variant of every workload once, in an order that changes from round to round, so
that what the machine does meanwhile falls on all alike; the figures are medians over the rounds. No
round begins after S seconds (default 360). Costs are of the traced program alone, as the kernel counts
them (wait4 of the program: user + system time, wall time, largest resident size): sealing and what
`mallow record` does beside it are not in them, but have rows of their own. Exits 0 whatever the
figures are, 1 when something could not be run."""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HEAPTRACK_LIBRARY = "/usr/lib/heaptrack/libheaptrack_preload.so"
HEAPTRACK_INTERPRETER = "/usr/lib/heaptrack/libexec/heaptrack_interpret"

CHURN, PAIRS, XTHREAD = 3000000, 6000000, 6000000  # operations: 2 events each


class Failed(Exception):
    pass


def generate_c(path):
    """A C file that keeps a compiler busy for a second or two, already preprocessed."""
    r = random.Random(7)
    with open(path, "w") as f:
        f.write("extern int printf(const char *, ...);\nextern double sqrt(double);\n")
        for i in range(110):
            f.write(f"struct s{i} {{ int a[{r.randrange(2, 30)}]; double d; struct s{i} *next; }};\n"
                    f"static int work{i}(struct s{i} *p, int n)\n{{\n    int sum = {i};\n"
                    f"    for (int i = 0; i < n; i++) {{\n        struct s{i} *q = p;\n"
                    f"        while (q) {{\n")
            for k in range(r.randrange(3, 9)):
                f.write(f"            if (q->a[(i + {k}) % 2] {r.choice('<>')} {r.randrange(1000)}) "
                        f"sum {r.choice(['+=', '^=', '-='])} q->a[{k % 2}] * {r.randrange(1, 99)} + i;\n"
                        f"            else q->d = sqrt(q->d + {k}) * sum;\n")
            f.write(f"            switch (sum & 7) {{ case 0: sum++; break; case 3: sum ^= i; break; "
                    f"case 5: sum -= n; default: sum += 2; }}\n            q = q->next;\n        }}\n"
                    f"    }}\n    return sum;\n}}\n"
                    f"int entry{i}(struct s{i} *p) {{ return printf(\"%d %f\\n\", work{i}(p, {i}), p->d); }}\n")


def generate_repository(path):
    """A git repository with 1,800 commits over 60 files, by fast-import."""
    r = random.Random(11)
    files = {f"d{i % 7}/file{i}.txt": [f"line {k} of {i}" for k in range(60)] for i in range(60)}
    out = []

    def data(text):
        b = text.encode()
        out.append(b"data %d\n" % len(b) + b + b"\n")
    for c in range(1800):
        out.append(b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n" % (1500000000 + c * 3600))
        data(f"change {c}\n\nbecause of {r.random()}\n")
        for name in (r.sample(sorted(files), 4) if c else sorted(files)):
            lines = files[name]
            for _ in range(r.randrange(1, 6)):
                lines[r.randrange(len(lines))] = f"changed in {c}: {r.random()}"
            if r.random() < 0.3:
                lines.insert(r.randrange(len(lines)), f"new in {c}")
            out.append(b"M 100644 inline " + name.encode() + b"\n")
            data("\n".join(lines) + "\n")
        out.append(b"\n")
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    subprocess.run(["git", "init", "-q", "--bare", path], check=True, env=env)
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input=b"".join(out), check=True, env=env)
    subprocess.run(["git", "-C", path, "symbolic-ref", "HEAD", "refs/heads/main"], check=True, env=env)


class Bench:
    def __init__(self, build, options):
        self.build = os.path.abspath(build)
        self.options = options
        self.mallow = os.path.join(self.build, "mallow")
        self.work = os.path.join(self.build, "bench", "run")
        shutil.rmtree(self.work, True)
        os.makedirs(self.work)
        self.timer = os.path.join(self.build, "bench", "timer")
        self.samples = {}   # (workload, variant) -> [ {wall, cpu, rss} ]
        self.notes = []
        self.workloads = self.find_workloads()
        self.heaptrack = shutil.which("heaptrack") and os.path.exists(HEAPTRACK_LIBRARY)
        if not self.heaptrack:
            self.notes.append("heaptrack is not installed: its columns are missing (apt-get install heaptrack)")

    def find_workloads(self):
        programs = {n: os.path.join(self.build, "bench", n) for n in ("churn", "pairs", "xthread")}
        w = {"churn": [programs["churn"], str(CHURN), "2000"], "pairs": [programs["pairs"], str(PAIRS)],
             "xthread": [programs["xthread"], str(XTHREAD)]}
        self.env = {}
        gcc = shutil.which("gcc")
        cc1 = gcc and subprocess.run([gcc, "-print-prog-name=cc1"], capture_output=True,
                                     text=True).stdout.strip()
        if cc1 and os.access(cc1, os.X_OK):
            source = os.path.join(self.work, "big.i")
            generate_c(source)
            w["compiler"] = [cc1, "-quiet", "-fpreprocessed", "-O2", source, "-o", "/dev/null"]
        else:
            self.notes.append("gcc is not installed: no compiler row")
        if shutil.which("git"):
            repository = os.path.join(self.work, "repository.git")
            generate_repository(repository)
            w["git"] = [shutil.which("git"), "-C", repository, "--no-pager", "log", "--stat"]
            self.env["git"] = ["GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"]
        else:
            self.notes.append("git is not installed: no git row")
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        w["python"] = [python, os.path.join(HERE, "workload", "script.py"), "36"]
        self.env["python"] = ["PYTHONMALLOC=malloc", "PYTHONHASHSEED=0"]
        if self.options.only:
            w = {k: v for k, v in w.items() if self.options.only in k}
        return w

    def path(self, name):
        return os.path.join(self.work, name)

    def timed(self, command, env=(), before=()):
        """Runs `before... timer OUT env -- command`; returns what the timer said of command."""
        out = self.path("timer")
        if os.path.exists(out):
            os.unlink(out)
        argv = [*before, self.timer, out, *env, "--", *command]
        r = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
        try:
            wall, user, system, rss, status = map(int, open(out).read().split())
        except (OSError, ValueError):
            raise Failed(f"{' '.join(argv)}: {r.stderr.decode(errors='replace')[-400:]}")
        if status or r.returncode:
            raise Failed(f"{' '.join(argv)}: status {status}/{r.returncode}: "
                         f"{r.stderr.decode(errors='replace')[-400:]}")
        return {"wall": wall, "cpu": user + system, "rss": rss * 1024}

    def record(self, options, file):
        return [self.mallow, "record", "-o", file, *options, "--"]

    def run_variant(self, name, variant):
        command, env = self.workloads[name], self.env.get(name, [])
        raw = self.path("timing.mlw")
        if variant == "plain":
            return self.timed(command, env)
        if variant in ("full", "none", "caller", "paused"):
            options = ["--keep-raw"]
            options += ["--paused"] if variant == "paused" else [f"--stacks={variant}"]
            try:
                return self.timed(command, env, self.record(options, raw))
            finally:
                if os.path.exists(raw):
                    os.unlink(raw)
        if variant == "heaptrack recorder":
            return self.timed(command, [*env, f"LD_PRELOAD={HEAPTRACK_LIBRARY}",
                                        "DUMP_HEAPTRACK_OUTPUT=/dev/null"])
        if variant == "heaptrack":
            out = self.path("heaptrack-data")
            try:
                return self.timed(["heaptrack", "-o", out, *command], env)
            finally:
                for suffix in (".zst", ".gz"):
                    if os.path.exists(out + suffix):
                        os.unlink(out + suffix)
        raise AssertionError(variant)

    def variants(self, name):
        v = ["plain", "full"]
        if name in ("churn", "pairs"):
            v += ["none", "paused"]
        if self.heaptrack:
            v.append("heaptrack recorder")
            if name not in ("pairs",):
                v.append("heaptrack")
        return v

    def rounds(self):
        plan = [(n, v) for n in self.workloads for v in self.variants(n)]
        start, done, order = time.monotonic(), 0, random.Random(1)
        for r in range(self.options.rounds):
            if r and time.monotonic() - start > self.options.seconds:
                self.notes.append(f"stopped after {r} of {self.options.rounds} rounds: time")
                break
            names = list(self.workloads)
            order.shuffle(names)
            for n in names:
                variants = self.variants(n)
                order.shuffle(variants)
                # heaptrack is slow and its cost is far from any bar: three samples of it do
                for v in variants:
                    if r >= 3 and v.startswith("heaptrack"):
                        continue
                    self.samples.setdefault((n, v), []).append(self.run_variant(n, v))
                    done += 1
                    progress(f"round {r + 1}: {n}, {v}")
        progress("")
        return plan

    # figures
    def median(self, name, variant, what):
        s = self.samples.get((name, variant))
        return statistics.median(x[what] for x in s) if s else None

    def added(self, name, variant, per):
        """CPU ns above the plain run, per call; the median of the rounds' differences."""
        a, b = self.samples.get((name, variant)), self.samples.get((name, "plain"))
        if not a or not b:
            return None
        return statistics.median((x["cpu"] - y["cpu"]) / per for x, y in zip(a, b))

    def ratio(self, name, variant, what="wall"):
        a, b = self.samples.get((name, variant)), self.samples.get((name, "plain"))
        if not a or not b:
            return None
        return statistics.median(x[what] / y[what] for x, y in zip(a, b))

    # files
    def sealed(self, name, command=None):
        """Records once and seals; the file, its events and its bytes. Raw kept beside it."""
        file = self.path(f"{name}.mlw")
        raw = file + ".raw"
        command = command or self.workloads[name]
        self.timed(command, self.env.get(name, []), self.record(["--keep-raw"], raw))
        shutil.copyfile(raw, file)
        command = [self.mallow, "report", "--index=never", "--json", "-n", "1", file]
        seal_and_report = self.timed(command)
        report = self.timed(command)
        raw_bytes = os.path.getsize(raw)
        os.unlink(raw)
        doc = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        return {"events": doc["events"], "lost": doc["lost_events"], "bytes": os.path.getsize(file),
                "raw_bytes": raw_bytes, "seal_cpu": seal_and_report["cpu"] - report["cpu"],
                "report": report, "file": file,
                "peak_blocks": max(p["peak_live_blocks"] for p in doc["processes"])}


    def clock(self):
        """ns of one reading of the cycle counter on this machine: no recorder with times is below it."""
        r = subprocess.run([os.path.join(self.build, "bench", "clock")], stdout=subprocess.PIPE, text=True,
                           check=True)
        return float(r.stdout)

    def heaptrack_readers(self, command, events):
        """M events/s of CPU time of heaptrack's interpreter (the counterpart of sealing) and of its
        heaptrack_print on one recording; None where they are not installed, or cannot."""
        if not (self.heaptrack and shutil.which("heaptrack_print") and shutil.which("zstd")
                and os.access(HEAPTRACK_INTERPRETER, os.X_OK)):
            return None
        base, plain, made = self.path("peer"), self.path("peer.txt"), self.path("peer.interpreted")
        try:
            subprocess.run(["heaptrack", "--raw", "-o", base, *command], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True)
            packed = next((base + s for s in (".raw.zst", ".raw.gz") if os.path.exists(base + s)), None)
            if not packed:
                raise Failed("heaptrack --raw wrote no file that is known")
            with open(plain, "wb") as f:
                subprocess.run([packed.endswith("zst") and "zstd" or "gzip", "-dc", packed], stdout=f, check=True)
            interpret = self.timed(["sh", "-c", 'exec "$0" < "$1" > "$2"', HEAPTRACK_INTERPRETER, plain, made])
            printed = self.timed(["heaptrack_print", "-f", made])
            return events / interpret["cpu"] * 1e3, events / printed["cpu"] * 1e3
        finally:
            for path in (plain, made, base + ".raw.zst", base + ".raw.gz"):
                if os.path.exists(path):
                    os.unlink(path)


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()


def figure(value, form):
    return "-" if value is None else form.format(value)


class Table:
    def __init__(self):
        self.rows = []

    def row(self, what, value, form, bar, bar_text, peers="", at_least=False):
        if value is None:
            verdict = "not measured"
        else:
            verdict = "pass" if (value >= bar if at_least else value <= bar) else "MISS"
        self.rows.append({"what": what, "value": value, "shown": figure(value, form), "bar": bar_text,
                          "verdict": verdict, "peers": peers})

    def print(self):
        heads = {"what": "what", "shown": "mallow", "bar": "bar", "verdict": "", "peers": "peers in this run"}
        widths = {k: max(len(heads[k]), *(len(r[k]) for r in self.rows)) for k in heads}
        for r in [heads, {k: "-" * w for k, w in widths.items()}, *self.rows]:
            print("  ".join(str(r[k]).ljust(widths[k]) for k in heads).rstrip())


def table(b):
    t = Table()
    events = {"churn": 2 * CHURN, "pairs": 2 * PAIRS, "xthread": 2 * XTHREAD}

    def peers(name, what):
        if name not in b.workloads:
            return ""
        parts = []
        for v in ("heaptrack recorder", "heaptrack"):
            x = b.added(name, v, events[name]) if what == "added" else b.ratio(name, v)
            if x is not None:
                parts.append(f"{v} {x:.0f} ns" if what == "added" else f"{v} {x:.2f}x")
        if what == "ratio" and b.ratio(name, "full", "cpu"):
            parts.insert(0, f"(mallow, CPU time: {b.ratio(name, 'full', 'cpu'):.2f}x)")
        if what == "added" and b.samples.get((name, "plain")):
            parts.insert(0, f"plain {b.median(name, 'plain', 'cpu') / events[name]:.1f} ns")
        return ", ".join(parts)

    full = b.added("churn", "full", events["churn"])
    t.row("churn, full stacks, added per event", full, "{:.1f} ns", 28, "<= 28 ns", peers("churn", "added"))
    recorder = b.added("churn", "heaptrack recorder", events["churn"])
    share = full / recorder if full is not None and recorder else None
    t.row("  the same, as a share of heaptrack's recorder", share, "{:.3f}", 1 / 6, "<= 0.167 (a sixth)")
    t.row("churn, no stacks, added per event", b.added("churn", "none", events["churn"]), "{:.1f} ns", 12,
          "<= 12 ns")
    t.row("pairs, no stacks, added per event", b.added("pairs", "none", events["pairs"]), "{:.1f} ns", 8,
          "<= 8 ns", ", ".join([f"the clock alone {b.clock():.1f} ns", peers("pairs", "added")]))
    t.row("xthread, full stacks, wall", b.ratio("xthread", "full"), "{:.2f}x", 1.6, "<= 1.6x",
          peers("xthread", "ratio"))
    for name, bar in (("compiler", 1.10), ("git", 1.25), ("python", 1.6)):
        t.row(f"{name}, full stacks, wall", b.ratio(name, "full"), "{:.2f}x", bar, f"<= {bar:.2f}x",
              peers(name, "ratio"))
    for name in ("pairs", "churn"):
        t.row(f"loaded but paused, {name}, added per call", b.added(name, "paused", events[name]),
              "{:.2f} ns", 1, "<= 1 ns")
    files = {}
    for name, bar in (("churn", 2.6), ("git", 2.6), ("compiler", 2), ("python", 2)):
        if name in b.workloads:
            progress(f"sealing {name}")
            files[name] = f = b.sealed(name)
            value = f["bytes"] / f["events"]
            if f["lost"]:
                b.notes.append(f"{name}: {f['lost']} events lost")
            about = f"{f['events']} events, raw {f['raw_bytes'] / f['events']:.2f} bytes an event"
        else:
            value, about = None, ""
        t.row(f"sealed file, bytes an event, {name}", value, "{:.2f}", bar, f"<= {bar}", about)
    seal = report = None
    if "churn" in b.workloads:
        progress("a long recording")
        long = b.sealed("long", [b.workloads["churn"][0], "20000000", "2000"])
        short = files["churn"]
        seal = long["events"] / (long["seal_cpu"] / 1e9)
        report = (long["events"] - short["events"]) / (
            max(long["report"]["cpu"] - short["report"]["cpu"], 1) / 1e9)
        live = b.sealed("live", [b.workloads["churn"][0], "4000000", "1000000"])
    readers = None
    if "churn" in b.workloads:
        progress("heaptrack's readers")
        readers = b.heaptrack_readers(b.workloads["churn"], events["churn"])
    t.row("sealing, one core", seal and seal / 1e6, "{:.1f} M events/s", 12, ">= 12 M events/s",
          readers and f"heaptrack's interpreter {readers[0]:.2f} M events/s" or "", at_least=True)
    t.row("report --json, sealed, one core, symbols apart", report and report / 1e6, "{:.0f} M events/s", 50,
          ">= 50 M events/s", readers and f"heaptrack_print {readers[1]:.2f} M events/s" or "", at_least=True)
    for what, f in (("churn, 2,000 live", long), ("churn, 1 M live", live)) if seal else ():
        bar = (64 << 20) + 100 * f["peak_blocks"]
        t.row(f"memory of report, {what}, {f['events'] / 1e6:.0f} M events", f["report"]["rss"] / 2**20,
              "{:.0f} MB", bar / 2**20, f"<= {bar / 2**20:.0f} MB")
    if files.get("churn"):
        exports(b, t, files["churn"])
    for name, threads in (("churn", 1), ("xthread", 2)):
        rss, plain = b.median(name, "full", "rss"), b.median(name, "plain", "rss")
        t.row(f"the program's own extra memory, {name}, {threads} thread{'s' * (threads > 1)}",
              None if rss is None else (rss - plain) / 2**20, "{:.1f} MB", 8 + threads / 4,
              f"<= {8 + threads / 4:.2f} MB")
    return t


EVENT_FORMATS = ("heaptrack", "ctf", "csv", "mtrace", "chrome", "massif", "sqlite")


def exports(b, t, f):
    """Rows of `mallow export`: CPU time of formats that write every event, symbols and start included, and
    memory beside that of report."""
    most, whose = 0, ""
    for form in EVENT_FORMATS:
        progress(f"export, {form}")
        out = b.path("exported")
        shutil.rmtree(out, True)
        to = out if form in ("ctf", "sqlite") else "/dev/null"
        cost = b.timed([b.mallow, "export", "--format", form, "-o", to, f["file"]])
        t.row(f"export, {form}, one core", f["events"] / cost["cpu"] * 1e3, "{:.1f} M events/s", 2, ">= 2 M events/s",
              at_least=True)
        if cost["rss"] > most:
            most, whose = cost["rss"], form
        if os.path.isfile(out):
            os.unlink(out)
        shutil.rmtree(out, True)
    t.row("memory of export, as a share of report's", most / f["report"]["rss"], "{:.2f}", 1.5, "<= 1.5",
          f"the most: {whose}")


def main(doc=__doc__, kind=Bench, rows=table, rounds=7, seconds=360):
    """Also for the other tables: kind, a Bench with other workloads; rows, what makes a Table of it."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--rounds", type=int, default=rounds)
    p.add_argument("--seconds", type=float, default=seconds)
    p.add_argument("--only", help="only the workloads whose name contains this")
    p.add_argument("--json", help="write every sample to this file too")
    options = p.parse_args()
    try:
        b = kind(options.build, options)
        b.rounds()
        t = rows(b)
    except (Failed, subprocess.SubprocessError, OSError) as problem:
        progress("")
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    progress("")
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    n = max(len(s) for s in b.samples.values())
    print(f"{cpu}, {os.cpu_count()} CPUs, Linux {os.uname().release}; medians of {n} interleaved rounds\n")
    t.print()
    for note in b.notes:
        print(f"note: {note}")
    load = os.getloadavg()[0]
    if load > os.cpu_count() * 0.9:
        print(f"note: the machine was busy with other things too (load {load:.1f}): trust the ratios less")
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"rows": t.rows, "samples": {f"{n}/{v}": s for (n, v), s in b.samples.items()}}, f, indent=1)
    shutil.rmtree(b.work, True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
