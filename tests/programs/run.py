"""Programs that nobody here wrote, each alone and looked at by mallow: they must do the same.

Usage: run.py [--sample] [--install] [--modes M,M] [--programs P,P] [--jobs N] [--json OUT] [--markdown OUT]
       run.py --from JSON... --markdown OUT    the table alone, of results that runs wrote; of a program that is in several, the last one's

Each program of table.py runs twice alone, and once in each mode: under record, watch, watch --period 16K, watch --guard
all, and as the child of a process that `watch -p` attached to before. Standard output, standard error without mallow's
lines and the exit status must be those of the program alone, and no memory error may be reported. A program whose
packages are missing is skipped, with the reason, unless --install gets them by apt-get. As root.

Environment: MALLOW, the command. The exit status is 0 when something ran, and nothing differed."""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # also run by hand
import table  # noqa: E402
from mallowtest import MALLOW  # noqa: E402
from mallowtest.ports import free_ports  # noqa: E402

TIMEOUT = 900  # seconds: a program that hangs; none takes a tenth of it
RUN = "PROGRAMS_RUN"  # in the environment of all that a program starts: the directory of the program
MODES = {
    "record": ["record", "-o", "{}/out.mlw", "--"],
    "watch": ["watch", "--json", "-o", "{}/out.json", "--"],
    "watch 16K": ["watch", "--period", "16K", "--json", "-o", "{}/out.json", "--"],
    "guard": ["watch", "--guard", "all", "--json", "-o", "{}/out.json", "--"],
    "parent": [],
}
# Makes the file of its first argument, waits on standard input where a thread may be borrowed, and runs the rest as a child.
PARENT = ("import select, subprocess, sys; open(sys.argv[1], 'w').close(); select.select([0], [], []); "
          "sys.exit(subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL).returncode % 256)")


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def differs(self, other):
        """How this differs from the program alone; "": not at all."""
        if self.status != other.status:
            return f"exit status {self.status} for {other.status}: {(self.err or self.out)[-300:]!r}"
        for name in "out", "err":
            a, b = getattr(other, name), getattr(self, name)
            if a != b:
                at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                return f"std{name} at byte {at}: {b[at:at + 120]!r} for {a[at:at + 120]!r}"
        return ""


class Bench:
    """A program in directories of its own."""

    def __init__(self, program, base):
        self.program = program
        self.fresh, self.work, self.side = (os.path.join(base, n) for n in ("fresh", "work", "side"))
        for d in self.fresh, self.side:
            os.makedirs(d)
        os.chmod(base, 0o755)
        self.port, = free_ports(1)

    def environment(self):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games", "LC_ALL": "C.UTF-8", "TZ": "UTC",
                "HOME": self.work, RUN: self.work, "PORT": str(self.port), "TERM": "dumb"}

    def shell(self, directory):
        path = os.path.join(self.side, "script")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"cd {directory}\n{self.program.script}\n")
        return ["/bin/sh", path]

    def prepare(self):
        if not self.program.setup:
            return ""
        r = subprocess.run(["/bin/sh", "-ec", self.program.setup], cwd=self.fresh, env={**self.environment(), "HOME": self.fresh},
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False, start_new_session=True)
        return "" if r.returncode == 0 else f"its setup failed: {r.stderr[-300:]!r}"

    def clean(self, raw):
        text = b"".join(l for l in raw.splitlines(keepends=True) if not l.startswith(b"mallow")).decode("utf-8", "replace")
        for pattern in self.program.varies:
            text = re.sub(pattern, "~", text)
        return text

    def start(self, argv, **more):
        # a session of its own: servers end by signals to their process group
        return subprocess.Popen(argv, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                start_new_session=True, **more)

    def end_leftovers(self):
        """Daemons that the program started and left (epmd) would serve the next run of it, as this mode found none."""
        mark = f"{RUN}={self.work}".encode()
        left = True
        while left:
            left = False
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as f:
                        if mark in f.read().split(b"\0"):
                            os.kill(int(pid), signal.SIGKILL)
                            left = True  # until it is gone, with its ports
                except OSError:
                    continue  # it ended, or is another user's

    def end(self, process, data=None):
        try:
            out, err = process.communicate(data, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += b"it did not end\n"
        self.end_leftovers()
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Outcome(status, self.clean(out), self.clean(err))

    def run(self, mode):
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["cp", "-a", self.fresh, self.work], check=True)
        for name in "out.mlw", "out.json", "ready":
            if os.path.exists(os.path.join(self.side, name)):
                os.unlink(os.path.join(self.side, name))
        script = self.shell(self.work)
        if mode == "parent":
            return self.run_child(script)
        options = [a.format(self.side) for a in MODES.get(mode, [])]
        return self.end(self.start([MALLOW, *options, *script] if options else script, stdin=subprocess.DEVNULL))

    def run_child(self, script):
        ready = os.path.join(self.side, "ready")
        parent = self.start(["/usr/bin/python3", "-c", PARENT, ready, *script], stdin=subprocess.PIPE)
        while not os.path.exists(ready) and parent.poll() is None:
            time.sleep(0.01)
        with open(os.path.join(self.side, "watch.err"), "w+b") as err:
            with subprocess.Popen([MALLOW, "watch", "-p", str(parent.pid), "--json", "-o", os.path.join(self.side, "out.json")],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err) as watch:
                def said():
                    err.seek(0)
                    return err.read()
                while b"attached to process" not in said() and watch.poll() is None:
                    time.sleep(0.02)
                attached = watch.poll() is None
                outcome = self.end(parent, b"go\n")
                watch.wait(TIMEOUT)
            if not attached:
                outcome.status, outcome.err = 125, "not attached to: " + said().decode("utf-8", "replace")
        return outcome

    def reported(self, mode):
        """(memory errors and other faults that mallow reported, figures for the table)."""
        if mode == "record":
            r = subprocess.run([MALLOW, "report", "--json", "-n", "1", os.path.join(self.side, "out.mlw")], capture_output=True, check=False)
            if r.returncode:
                return [f"no report: {r.stderr.decode('utf-8', 'replace')[-300:]}"], {}
            d = json.loads(r.stdout)
            return ([f"{d['lost_events']} events lost"] if d["lost_events"] else [],
                    {"calls": d["events"], "freed unseen": sum(p["unknown_frees"] for p in d["processes"])})
        errors, against = [], {}
        path = os.path.join(self.side, "out.json")
        lines = []
        if os.path.exists(path):
            with open(path, "rb") as f:
                lines = f.readlines()
        for o in map(json.loads, lines):
            against.setdefault(o["pid"], set()).update(["not said"] if o.get("unguarded") is None else o["unguarded"])
            if o["kind"] == "error":
                frames = [f.get("function") or f.get("module") for f in (o.get("access") or [])[:6]]
                errors.append(f"{o['error']} in {' < '.join(map(str, frames))}")
        if mode != "guard":
            return errors, {}
        free = sum(not reasons for reasons in against.values())
        return errors, {"processes": len(against), "guarded": free, "unguarded": sorted(set().union(*against.values()))}


def judge(program, modes):
    result = {"name": program.name, "modes": {}, "figures": {}}
    with tempfile.TemporaryDirectory(prefix=f"programs-{program.name}-") as base:
        bench = Bench(program, base)
        problem = bench.prepare()
        if problem:
            return {**result, "failed": problem}
        alone = bench.run("alone")
        again = bench.run("alone")
        difference = again.differs(alone)
        if difference or alone.status not in (0,):
            return {**result, "failed": f"alone: {difference or f'exit status {alone.status}: {(alone.err or alone.out)[-300:]}'}"}
        for mode in modes:
            if mode in program.skip:
                result["modes"][mode] = f"skipped: {program.skip[mode]}"
                continue
            difference = bench.run(mode).differs(alone)
            errors, figures = bench.reported(mode)
            result["figures"].update(figures)
            result["modes"][mode] = difference or "; ".join(sorted(set(errors))[:4]) or "same"
    return result


def judged(program, modes):
    """One program for which the runner itself fails must not take the others' results with it."""
    try:
        return judge(program, modes)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
        return {"name": program.name, "modes": {}, "figures": {}, "failed": f"the runner: {e!r}"}


def versions(packages):
    """Package -> version of those that are installed."""
    r = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n", *packages], capture_output=True, text=True, check=False)
    return {l.split()[1]: l.split()[2] for l in r.stdout.splitlines() if l.startswith("installed ")}


def install(programs):
    wanted = sorted({p for q in programs for p in q.packages} - set(versions({p for q in programs for p in q.packages})))
    if not wanted:
        return
    print(f"programs: installing {' '.join(wanted)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"]
    if subprocess.run([*apt, "install", *wanted], env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
        for one in wanted:  # one that this release lacks must not keep the others away
            subprocess.run([*apt, "install", one], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def is_bad(result):
    return "failed" in result or any(w != "same" and not w.startswith("skipped") for w in result.get("modes", {}).values())


def markdown(results, system):
    """The table, in which a difference is a number, and the differences below it."""
    modes = list(MODES)
    lines = [f"| program | version ({system}) | {' | '.join(modes)} | calls recorded | freed unseen | processes guarded |",
             "| --- " * (len(modes) + 5) + "|"]
    notes = []

    def cell(text, name):
        if text in ("same", ""):
            return text
        notes.append(f"{name}: {text}")
        return f"{'skipped' if text.startswith('skipped') else 'differs'} ({len(notes)})"

    for r in results:
        f = r.get("figures", {})
        whole = "skipped: " + r["skipped"] if "skipped" in r else r.get("failed", "")
        cells = [cell(whole, r["name"])] + [""] * (len(modes) - 1) if whole else [cell(r["modes"].get(m, ""), f"{r['name']}, {m}") for m in modes]
        guarded = f"{f['guarded']} of {f['processes']}" + (f" ({', '.join(f['unguarded'])})" if f["unguarded"] else "") if f.get("processes") else ""
        counts = [f"{f[k]:,}" if k in f else "" for k in ("calls", "freed unseen")]
        lines.append(f"| {r['name']} | {r.get('version', '')} | {' | '.join([*cells, *counts, guarded])} |")
    text = "\n".join(lines) + "\n"
    if notes:
        text += "\n```\n" + "".join(f"({n}) {' '.join(note.split())[:400]}\n" for n, note in enumerate(notes, 1)) + "```\n"
    return text


def write_markdown(path, results, system):
    """Over the whole file, or, in a document that has the two comments, between them."""
    text, marks = markdown(results, system), ("<!-- table: begin -->\n", "<!-- table: end -->\n")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            before = f.read()
        if all(m in before for m in marks):
            text = before.split(marks[0])[0] + marks[0] + text + marks[1] + before.split(marks[1])[1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def from_files(paths, path):
    found, system = {}, ""
    for one in paths:
        with open(one, encoding="utf-8") as f:
            d = json.load(f)
        system = d["system"]
        found.update({r["name"]: r for r in d["programs"]})
    write_markdown(path, [found[p.name] for p in table.PROGRAMS if p.name in found], system)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sample", action="store_true", help="those of make check")
    parser.add_argument("--install", action="store_true", help="get missing packages by apt-get")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--programs", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    parser.add_argument("--from", dest="origin", nargs="+", default=[])
    parser.add_argument("--markdown")
    a = parser.parse_args()
    modes = a.modes.split(",")
    names = a.programs.split(",") if a.programs else []
    unknown = [m for m in modes if m not in MODES] + [n for n in names if n not in {p.name for p in table.PROGRAMS}]
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    chosen = [p for p in table.PROGRAMS if (p.sample or not a.sample) and (p.name in names or not names)]
    if a.origin:
        if not a.markdown:
            parser.error("--from needs --markdown")
        from_files(a.origin, a.markdown)
        return
    if os.geteuid():
        print("SKIPPED: only as root: packages are installed, servers started, and processes attached to")
        sys.exit(77)
    if a.install:
        install(chosen)
    have = versions({p for q in chosen for p in q.packages})
    results, runnable = {}, []
    for p in chosen:
        missing = [x for x in p.packages if x not in have]
        if missing:
            results[p.name] = {"name": p.name, "skipped": f"not installed: {' '.join(missing)}"}
        else:
            runnable.append(p)
    with open("/etc/os-release", encoding="utf-8") as f:
        system = re.search(r'PRETTY_NAME="([^"]*)"', f.read()).group(1)

    def save():
        ordered = [results[p.name] for p in chosen if p.name in results]
        if a.json:
            with open(a.json, "w", encoding="utf-8") as f:
                json.dump({"system": system, "kernel": os.uname().release, "programs": ordered}, f, indent=1)
        if a.markdown:
            write_markdown(a.markdown, ordered, system)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for p, r in zip(runnable, pool.map(lambda p: judged(p, modes), runnable)):
            r["version"] = f"{p.packages[0]} {have[p.packages[0]]}"
            results[p.name] = r
            failed += is_bad(r)
            faults = {"alone": r["failed"]} if "failed" in r else {m: w for m, w in r["modes"].items() if w != "same"}
            print(f"{'FAIL' if is_bad(r) else 'ok  '} {p.name} {r['figures']}" + "".join(f"\n     {m}: {w}" for m, w in faults.items()), flush=True)
            save()  # what is known so far stays when the run is ended
    for name, r in results.items():
        if "skipped" in r:
            print(f"SKIPPED {name}: {r['skipped']}")
    save()
    print(f"{len(runnable) - failed} the same, {failed} not, {len(chosen) - len(runnable)} skipped")
    sys.exit(1 if failed else 0 if runnable else 77)


if __name__ == "__main__":
    main()
