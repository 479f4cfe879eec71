"""`mallow record -p`: a process that runs already, recorded from outside."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from mallowtest import MALLOW
from mallowtest.libcfacts import FREE_ENTERED_TWICE
from probing import Case, attached, main, mallow, reads, victim


class Attach(Case):
    def setUp(self):
        self.file = os.path.join(self.folder, "out.mlw")

    def start(self, name, *arguments, **environment):
        p = subprocess.Popen([victim(name), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={**os.environ, **environment})
        for end in (p.wait, p.kill, p.stdin.close, p.stdout.close):
            self.addCleanup(end)
        reads(p)  # what it did before is done, and its libraries are there
        return p

    def record(self, p, *options):
        m = subprocess.Popen([MALLOW, "record", "--how", "probe", "-p", str(p.pid), "-o", self.file, *options], stderr=subprocess.PIPE,
                             text=True)
        self.addCleanup(m.stderr.close)
        self.addCleanup(m.kill)
        attached(m)
        if m.poll():  # 0: its time is over
            self.fail(m.stderr.read())
        return m

    def ended(self, m, status=0):
        err = m.communicate(timeout=600)[1]
        self.assertEqual(m.returncode, status, err)
        return err

    @staticmethod
    def go(p):
        p.stdin.write(b"g")
        p.stdin.flush()

    def processes(self):
        out = mallow("report", "--json", self.file)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)["processes"]

    def report(self):
        [process] = self.processes()
        return process

    def check(self, process):
        """What the victim did after its first byte; its C library may add calls for threads."""
        sites = {}
        for site in process["sites"]:
            for frame in site["frames"]:
                if frame["function"].startswith("make_"):
                    sites[frame["function"]] = site
        self.assertNotIn("make_before", sites)
        kept = sites["make_kept"]
        self.assertEqual((kept["calls"], kept["allocated_bytes"], kept["end_live_blocks"]), (1000, 100000, 600))
        self.assertEqual(kept["frames"][0]["function"], "make_kept")
        self.assertEqual(kept["frames"][1]["function"], "run")
        cleared = sites["make_cleared"]
        self.assertEqual((cleared["calls"], cleared["allocated_bytes"], cleared["end_live_blocks"]), (30, 90000, 0))
        grown = sites["make_grown"]
        self.assertEqual((grown["end_live_blocks"], grown["end_live_bytes"]), (1, 150000))
        self.assertEqual(grown["allocated_bytes"], sum(i * 3000 for i in range(1, 51)))
        self.assertEqual((sites["make_aligned"]["calls"], sites["make_aligned"]["allocated_bytes"]), (20, 100000))
        self.assertEqual((sites["make_pairs"]["calls"], sites["make_pairs"]["end_live_blocks"]), (1000, 0))
        # Blocks from before; at a thread's end glibc calls free for what it keeps itself.
        self.assertIn(process["unknown_frees"], range(100, 113))
        self.assertEqual(process["calls"]["realloc"], 50)
        self.assertEqual(process["calls"]["posix_memalign"], 20)
        self.assertEqual((process["lost_events"], process["failed_calls"], process["inferred_frees"]), (0, 0, 0))
        self.assertEqual(process["threads"], 5)

    def costs(self, err):
        """It is measured before, or, where the kernel takes no probes for one process, said in general."""
        cost = re.search(r"each malloc takes at least ([0-9]+\.[0-9]) us longer meanwhile, each free ([0-9]+\.[0-9]) us "
                         r"\(measured just now\)", err)
        if cost is None:
            self.assertIn("each call of its allocator takes about 1 to 12 us longer meanwhile", err)
            return None
        self.assertGreater(min(map(float, cost.groups())), 0)
        return [float(c) for c in cost.groups()]

    def whole(self, name, **environment):
        p = self.start(name, **environment)
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        p.wait(600)
        err = self.ended(m)
        self.costs(err)
        process = self.report()
        self.check(process)
        self.assertTrue(process["complete"])
        self.assertEqual((process["pid"], process["command"]), (p.pid, [victim(name)]))
        self.assertTrue(any("earlier allocations are unknown" in w for w in process["warnings"]), process["warnings"])
        self.assertGreater(process["peak_rss_bytes"], 0)
        measured = [e for e in process["explained"] if e["rss_bytes"]]
        self.assertTrue(measured, process["explained"])
        for e in measured:
            self.assertEqual(sum(part["bytes"] for part in e["parts"]), e["rss_bytes"])

    def test_until_it_ends(self):
        self.whole("attach_victim")

    def test_what_it_is_called(self):
        """As it was last looked at; titles are written over the arguments."""
        title = "worker: of session 7"
        p = self.start("titled_victim", "padding, since titles are no longer than arguments")
        m = self.record(p)
        p.stdin.write(f"title {title}\nname worker/7\n".encode())
        p.stdin.flush()
        self.assertEqual(p.stdout.readline() + p.stdout.readline(), b"\n\n")
        time.sleep(0.3)  # what was looked at before counts no longer
        then = self.reads_of(m)
        while self.reads_of(m) < then + 20:
            time.sleep(0.05)
        p.stdin.close()
        self.ended(m)
        process = self.report()
        self.assertEqual((process["title"], process["comm"]), (title, "worker/7"))
        self.assertTrue(process["command"][0].endswith("titled_victim"))

    @staticmethod
    def reads_of(m):
        with open(f"/proc/{m.pid}/io", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("syscr")).split()[1])

    def test_static_program(self):
        self.whole("attach_victim_static")

    def test_trampolines(self):
        """CPython's, with -X perf: no tables, and nothing in rbp that leads on."""
        p = self.start("trampoline_victim", "/app/script.py", "200", "wait")
        self.addCleanup(os.unlink, f"/tmp/perf-{p.pid}.map")
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        p.wait(600)
        self.ended(m)
        blocks = [s for s in self.report()["sites"] if s["frames"][0]["function"] == "evaluate"]
        self.assertEqual(sum(s["calls"] for s in blocks), 200)
        blocks = [s for s in blocks if len(s["frames"]) < 60]  # the kernel's side takes 64 frames
        self.assertEqual([s for s in blocks if any(f.get("cut") for f in s["frames"])], [])
        self.assertEqual(sorted(len([f for f in s["frames"] if f["module"] == "[python]"]) for s in blocks),
                         list(range(1, 30)))
        for s in blocks:
            self.assertEqual(s["frames"][-1]["function"], "main")

    def test_another_allocator(self):
        """In the order of addresses, the C library comes before it."""
        library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
        if not os.path.exists(library):
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        self.whole("attach_victim", LD_PRELOAD=library)

    def test_until_interrupted(self):
        p = self.start("attach_victim")
        m = self.record(p, "-q")
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        m.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(m), "")
        self.assertIsNone(p.poll())  # it runs on, and nothing is left in it
        process = self.report()
        self.check(process)
        self.assertFalse(process["complete"])

    def test_for_a_time(self):
        p = self.start("attach_victim")
        m = self.record(p, "-d", "300ms", "--stacks", "none", "--keep-raw")
        self.ended(m)
        self.assertIsNone(p.poll())
        with open(self.file, "rb") as f:
            self.assertEqual(f.read(4), b"MLC1")
        self.assertEqual(self.report()["events"], 0)

    def run_with(self, how, *options):
        """Records the victim until its end; returns what is known of its processes."""
        p = self.start("attach_victim", how)
        m = self.record(p, *options)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        p.wait(600)
        self.ended(m)
        processes = self.processes()
        self.assertEqual(processes[0]["pid"], p.pid)
        return processes

    def test_when_it_becomes_another_program(self):
        first, then = self.run_with("exec", "--stacks", "caller")
        self.assertEqual((first["end"], first["complete"]), ("exec", True))
        self.assertIn(["make_kept"], [[f["function"] for f in s["frames"]] for s in first["sites"]])
        # The other one from its very first call on.
        self.assertEqual((then["pid"], then["ppid"], then["command"], then["exe"], then["end"]),
                         (first["pid"], first["ppid"], ["another", "child"], victim("attach_victim"), "exit"))
        self.assertEqual((then["calls"]["malloc"], then["calls"]["free"]), (200, 50 + FREE_ENTERED_TWICE))
        self.assertEqual((then["unknown_frees"], then["warnings"]), (int(FREE_ENTERED_TWICE), []))

    def test_not_what_it_becomes(self):
        [process] = self.run_with("exec", "--no-follow")
        self.assertEqual((process["end"], process["complete"]), ("exec", True))

    def test_a_forked_child(self):
        parent, child = self.run_with("fork")
        self.check(parent)
        self.assertEqual((child["ppid"], child["command"], child["exe"]),
                         (parent["pid"], parent["command"], parent["exe"]))
        sites = {s["frames"][0]["function"]: s for s in child["sites"]}
        made = sites["make_in_child"]
        self.assertEqual((made["calls"], made["end_live_blocks"], made["frames"][1]["function"]), (200, 150, "child"))
        # Of its parent's 600 it frees 100, which it knows.
        self.assertEqual((sites["make_kept"]["calls"], sites["make_kept"]["end_live_blocks"]), (0, 500))
        self.assertEqual((child["unknown_frees"], child["lost_events"]), (0, 0))
        self.assertEqual((child["calls"]["malloc"], child["calls"]["free"], child["threads"]), (200, 150, 1))
        self.assertEqual((child["end"], child["complete"]), ("exit", True))
        self.assertNotIn("make_in_child", [s["frames"][0]["function"] for s in parent["sites"]])

    def test_not_a_forked_child(self):
        [process] = self.run_with("fork", "--no-follow")
        self.check(process)
        self.assertTrue(any("children of the process are not" in w for w in process["warnings"]), process["warnings"])

    def test_spawned_children(self):
        """A child has its parent's memory until it is another program, and is none before."""
        parent, child, dies = self.run_with("spawn")
        self.check(parent)
        for process, how in ((child, "child"), (dies, "dies")):
            self.assertEqual((process["ppid"], process["command"], process["exe"]),
                             (parent["pid"], [victim("attach_victim"), how, "an argument"], victim("attach_victim")))
            self.assertEqual((process["unknown_frees"], process["lost_events"]), (int(FREE_ENTERED_TWICE), 0))
            sites = {s["frames"][0]["function"]: s for s in process["sites"]}
            self.assertEqual((sites["make_in_child"]["calls"], sites["make_in_child"]["end_live_blocks"]), (200, 150))
        self.assertEqual((child["end"], child["complete"], child["warnings"]), ("exit", True, []))
        self.assertEqual((dies["end"], dies["complete"]), ("killed", False))

    def test_at_the_end_nothing_looks_leaked(self):
        """Probes are taken away one after the other, while it allocates 400 blocks and frees them, in turns."""
        p = self.start("attach_victim", "turns")
        m = self.record(p)
        self.go(p)
        for _ in range(6000):
            out = mallow("report", "--json", self.file)
            if out.returncode == 0 and json.loads(out.stdout)["events"] > 1000:
                break
            time.sleep(0.1)
        m.send_signal(signal.SIGINT)
        self.ended(m)
        self.go(p)
        process = self.report()
        [turn] = [s for s in process["sites"] if s["frames"][0]["function"] == "make_turn"]
        self.assertGreater(turn["calls"], 1000)
        self.assertLessEqual(turn["end_live_blocks"], 400)
        self.assertLessEqual(turn["peak_bytes"], 400 * 200)
        self.assertLessEqual(process["unknown_frees"], 400 + 100)
        # While calls of malloc are seen, those of free are, too: no block has the address of one that is live.
        self.assertEqual(process["inferred_frees"], 0)

    def test_a_first_thread_that_has_ended(self):
        """Another goes on: it is measured, and its end is the process's."""
        p = subprocess.Popen([victim("attach_victim"), "leader"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for end in (p.wait, p.kill, p.stdin.close, p.stdout.close):
            self.addCleanup(end)
        for _ in range(12000):
            threads = os.listdir(f"/proc/{p.pid}/task")
            if len(threads) == 2:
                with open(f"/proc/{p.pid}/task/{max(threads, key=int)}/syscall", encoding="ascii") as f:
                    if f.read().split()[:2] == ["0", "0x0"]:
                        break
            time.sleep(0.01)
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        p.wait(600)
        self.ended(m)
        process = self.report()
        self.check(dict(process, threads=5))
        self.assertTrue(process["complete"])
        self.assertGreater(process["peak_rss_bytes"], 0)

    def test_a_process_that_ends_meanwhile(self):
        """mallow stops before it makes its first link to a program in the kernel, until the process is gone."""
        if not shutil.which("cc"):
            self.skipTest("SKIPPED, LOUDLY: no compiler here")
        source, library = os.path.join(self.folder, "slow.c"), os.path.join(self.folder, "slow.so")
        with open(source, "w", encoding="ascii") as f:
            f.write("#include <fcntl.h>\n#include <stdarg.h>\n#include <unistd.h>\n"
                    "long syscall(long n, ...)\n{\n    long a[6], r;\n    va_list ap;\n    va_start(ap, n);\n"
                    "    for (int i = 0; i < 6; i++)\n        a[i] = va_arg(ap, long);\n    va_end(ap);\n"
                    "    if (n == 321 && a[0] == 28)\n"
                    f'        for (close(open("{self.folder}/asked", O_CREAT, 0600)); access("{self.folder}/go", F_OK);)\n'
                    "            usleep(10000);\n"
                    "    register long d __asm__(\"r10\") = a[3], e __asm__(\"r8\") = a[4], f __asm__(\"r9\") = a[5];\n"
                    "    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"0\"(n), \"D\"(a[0]), \"S\"(a[1]), \"d\"(a[2]), "
                    "\"r\"(d), \"r\"(e), \"r\"(f) : \"rcx\", \"r11\", \"memory\");\n"
                    "    extern int *__errno_location(void);\n"
                    "    return r < 0 && r > -4096 ? (*__errno_location() = (int)-r, -1) : r;\n}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-D_GNU_SOURCE", "-o", library, source], check=True)
        p = self.start("attach_victim")
        with subprocess.Popen([MALLOW, "record", "--how", "probe", "-p", str(p.pid), "-o", self.file], stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, LD_PRELOAD=library)) as m:
            self.addCleanup(m.kill)
            for _ in range(12000):
                if os.path.exists(os.path.join(self.folder, "asked")):
                    break
                time.sleep(0.05)
            p.kill()
            p.wait()
            with open(os.path.join(self.folder, "go"), "wb"):
                pass
            err = m.communicate(timeout=600)[1]
        self.assertEqual((m.returncode, err), (1, f"mallow record: process {p.pid} ended while the probes were being "
                                                  "attached: nothing is recorded\n"))
        self.assertFalse(os.path.exists(self.file))

    def test_a_child_that_outlives_it(self):
        p = self.start("attach_victim", "leave")
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.wait(600)
        self.costs(m.stderr.readline())
        self.assertEqual(m.stderr.readline(),
                         f"mallow record: process {p.pid} has ended; waiting for 1 of its children "
                         "(Ctrl-C ends the recording)\n")
        p.stdin.close()
        self.ended(m)
        parent, child = self.processes()
        self.check(parent)
        self.assertEqual((child["ppid"], child["calls"]["malloc"], child["end"]), (parent["pid"], 200, "exit"))

    def test_a_child_that_was_there_before(self):
        """What it was is known, even when it is gone before its first call was taken."""
        with subprocess.Popen(["/bin/sh", "-c", 'exec 3<&0; "$0" <&3 & wait', victim("attach_victim")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            self.addCleanup(shell.kill)
            for _ in range(12000):
                with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as f:
                    child = f.read().split()
                if child:
                    break
                time.sleep(0.05)
            reads(int(child[0]))
            m = self.record(shell)
            m.send_signal(signal.SIGSTOP)
            self.go(shell)
            self.assertEqual(shell.stdout.readline(), b"done\n")
            shell.stdin.close()
            shell.wait(600)
            m.send_signal(signal.SIGCONT)
            self.ended(m)
        process = next(p for p in self.processes() if p["pid"] == int(child[0]))
        self.check(process)
        self.assertEqual((process["ppid"], process["command"]), (shell.pid, [victim("attach_victim")]))
        self.assertGreater(process["peak_rss_bytes"], 0)
        self.assertEqual(process["end"], "exit")

    def test_a_file_that_is_read_meanwhile(self):
        p = self.start("attach_victim")
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        pairs = None
        for _ in range(6000):
            out = mallow("report", "--json", self.file)
            # A part may be there already; the pairs are the last that it makes.
            if out.returncode == 0:
                sites = [s for p in json.loads(out.stdout)["processes"] for s in p["sites"]]
                pairs = next(((s["calls"], s["end_live_blocks"]) for s in sites
                              if s["frames"][0]["function"] == "make_pairs"), None)
            if pairs == (1000, 0):
                break
            time.sleep(0.1)
        self.assertEqual(pairs, (1000, 0))
        self.assertIsNone(m.poll())
        m.kill()  # and what was written is a recording
        m.wait()
        self.check(self.report())

    def test_a_process_that_is_not_there(self):
        out = mallow("record", "-p", "2147483646")
        self.assertEqual((out.returncode, out.stderr), (1, "mallow record: there is no process 2147483646\n"))

    def test_the_way_for_a_static_program_is_named(self):
        out = mallow("record", "--", victim("attach_victim_static"))
        self.assertEqual(out.returncode, 125)
        self.assertIn("'mallow record -p PID'", out.stderr)


if __name__ == "__main__":
    main()
