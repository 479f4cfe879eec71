"""Files, servers and clients that claim more than they have: each command in a control group that would kill it for
more than docs/security.md says, with a bound on the processor's time."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

from mallowtest import MALLOW
import attack
import figures
import hostile_cores
import hostile_files
import hostile_recordings
import hostile_server

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "heap", "corpus")


def answered(port):
    """The status of an answer to a client that means well: 200, or the last one."""
    begun, status = time.monotonic(), None
    while status != 200 and time.monotonic() - begun < attack.PATIENCE:
        with contextlib.suppress(OSError, http.client.HTTPException):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("GET", "/report.json")
            status = c.getresponse().status
            c.close()
    return status


class Files(attack.Attack):
    where, symlinks = attack.on_disk(), "1"

    def setUp(self):
        super().setUp()
        self.path = self.nb + "/hostile"

    def write(self, data):
        with open(self.path, "wb") as f:
            f.write(data)

    def test_cores(self):
        for kind in hostile_cores.KINDS:
            hostile_cores.make(kind, CORPUS + "/leaks.core.xz", self.path)
            done = figures.run(self, "heap CORE", kind, MALLOW, "heap", "--json", self.path)
            self.assertEqual(done.returncode, kind == "files", (kind, done.stderr))
            if kind == "notes":
                self.assertIn("more than 256 MiB: the rest was not read", done.stdout)
                self.assertIn("more threads than the 65536 that are looked at", done.stdout)

    def test_core_whose_segments_share_bytes(self):
        core = hostile_cores.Core(CORPUS + "/leaks.core.xz")
        hostile_cores.one_hole_many_times(core)
        core.write(self.path)
        done = figures.run(self, "heap CORE", "one hole many times", MALLOW, "heap", self.path)
        self.assertIn("several of them claim the same bytes", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_saved_heap(self):
        self.write(hostile_files.saved_heap(60 << 30))
        done = figures.run(self, "heap FILE.mlh", "facts without end", MALLOW, "heap", self.path)
        self.assertIn("at most 268435456 are read", done.stderr)

    def test_foreign_traces(self):
        out = self.root + "/out"
        for kind, data, options, status, said in (
                ("threads of perf", hostile_files.perf_threads(60000), ["--format=perf"], 0, ""),
                ("more threads of perf", hostile_files.perf_threads(70000), ["--format=perf"], 1, "more than 65536 threads"),
                ("60 million strings in gzip", hostile_files.heaptrack_tables(60000000), [], 0, ""),
                ("80 GiB of blank lines in zstd", hostile_files.heaptrack_blank(80 << 30), [], 1, "more than 128 times its size"),
                ("threads of dj/malloc that wait", hostile_files.dj_trace(30000, 60000), [], 0, ""),
                ("more of them", hostile_files.dj_trace(70000, 0), [], 1, "more than 65536 threads")):
            self.write(data)
            done = figures.run(self, "import", kind, MALLOW, "import", *options, "-o", out, self.path)
            self.assertEqual((done.returncode, said in done.stderr), (status, True), (kind, done.stderr))
        for data, status in ((hostile_files.dj_trace(30000, 60000), 0), (hostile_files.dj_trace(70000, 0), 1)):
            self.write(data)
            done = figures.run(self, "workload", "threads of dj/malloc that wait", MALLOW, "workload", "-o", out, self.path)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_packed_workload(self):
        self.write(hostile_files.packed(20 << 30))
        for row in "replay", "workload":
            done = figures.run(self, row, "20 GiB of zeros in zstd", MALLOW, row, *(["-o", self.root + "/w"] if row == "workload" else []),
                               self.path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("unpacks to more than", done.stderr)

    def test_recordings(self):
        lines = {"report": ("report",), "report --json": ("report", "--json"), "report --html": ("report", "--html", self.root + "/o.html"),
                 "export": ("export", "--format=massif", "-o", self.root + "/o"), "workload": ("workload", "-o", self.root + "/w"),
                 "diff": ("diff", self.path), "dump": ("dump",)}
        for kind, make in hostile_recordings.KINDS.items():
            data = make(10000)
            for row, line in lines.items():
                self.write(data)
                done = figures.run(self, row, f"10000 {kind}", MALLOW, *line, self.path)
                self.assertIn(done.returncode, (0,) if row.startswith("report") else (0, 1, 2), (kind, row, done.stderr))
                if row == "report":
                    self.assertEqual("forked through more than 4,096" in done.stdout, kind == "generations", kind)

    def test_servers(self):
        recording = self.root + "/r.mlw"
        self.mallow("record", "-q", "-o", recording, "--", "true")
        patience = ("--retry=0", "--timeout=2s")
        for row, line, answers in (
                ("pull", ("pull", *patience, "-o", self.root + "/p.mlw", "URL/r.mlw"), hostile_server.QUICK + hostile_server.SLOW),
                ("push", ("push", *patience, "--to", "URL/x", recording), hostile_server.QUICK + hostile_server.SLOW),
                ("push --segments", ("push", "--segments", *patience, "--to", "URL/x/", recording), hostile_server.QUICK),
                ("fleet --store URL", ("fleet", "--store", "URL/db", "report"), hostile_server.QUICK),
                ("fleet --store URL", ("fleet", "--store", "URL/db", "load", recording), hostile_server.QUICK)):
            for answer in answers:
                with hostile_server.Server(answer) as server:
                    done = figures.run(self, row, answer.__name__, MALLOW, *(part.replace("URL", server.url) for part in line))
                self.assertEqual(done.returncode, 1, (row, answer.__name__))
                if answer == hostile_server.endless_headers and row != "push":
                    self.assertIn("the answer's headers are longer than 65536 bytes", done.stderr)

    @staticmethod
    def end(process):
        """And the program that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def test_clients(self):
        """Of a page for a browser and of its figures: many that come slowly, ask again and again and never read."""
        group = figures.group_of(self, "watch --listen")
        watch = subprocess.Popen(group.command(MALLOW, "watch", "--listen", "127.0.0.1:0", "--every", "1000h", "--", "sleep", "1000"),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        self.addCleanup(watch.stderr.close)
        self.addCleanup(self.end, watch)
        line = ""
        while not line.startswith("listening on ") and watch.poll() is None:
            line = watch.stderr.readline()
            if "no libmicrohttpd" in line:
                attack.loudly(line)
        port = int(line.split(":")[-1].strip("/\n"))
        self.assertEqual(answered(port), 200)
        get = b"GET %s HTTP/1.1\r\nHost: localhost\r\n"
        with contextlib.ExitStack() as clients:
            for i in range(600):
                s = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                s.setblocking(False)
                with contextlib.suppress(OSError):
                    s.send((get % (b"/", b"/report.json")[i % 2])[:30] if i % 3 else
                           (get % (b"/", b"/report.json", b"/debug/pprof/heap")[i % 9 // 3] + b"\r\n") * 2000)
            self.assertEqual(answered(port), 200)
        figures.note("watch --listen", "600 clients", group)
        watch.send_signal(signal.SIGTERM)
        self.assertIn(watch.wait(attack.PATIENCE), (0, 143, -15))


if __name__ == "__main__":
    ran = unittest.main(exit=False).result
    figures.show()
    sys.exit(not ran.wasSuccessful())
