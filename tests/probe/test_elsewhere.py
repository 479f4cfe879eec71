"""Functions on which another tool's probe keeps a count of its own: the kernel refuses any other there."""
import os
import shutil
import subprocess

from mallowtest import MALLOW
from probing import Case, main, mallow, reads, victim

TRACING = "/sys/kernel/tracing"
WHY = "another tool's probe on it keeps its count elsewhere (bcc's memleak does); end that tool first"


def offset_of(program, name):
    """Where a function stands in its file."""
    out = subprocess.run(["readelf", "-sW", program], capture_output=True, text=True, check=True).stdout
    [address] = {int(l.split()[1], 16) for l in out.splitlines() if l.split()[-1:] == [name]}
    out = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        if line.split()[:1] == ["LOAD"]:
            offset, start, _, size = (int(n, 16) for n in line.split()[1:5])
            if start <= address < start + size:
                return address - start + offset
    raise AssertionError(f"{name} is not in {program}")


class Elsewhere(Case):
    def setUp(self):
        if not shutil.which("readelf"):
            self.skipTest("SKIPPED, LOUDLY: no readelf (binutils)")
        if not os.access(f"{TRACING}/uprobe_events", os.W_OK):
            self.skipTest(f"SKIPPED, LOUDLY: no {TRACING}/uprobe_events to write to")

    def occupied(self, name):
        """A copy of a victim, on whose malloc a probe stands with a count that nothing has."""
        program = shutil.copy(victim(name), self.folder)
        event = f"mallow_test_{os.getpid()}/{name}"
        self.events(f"p:{event} {program}:{offset_of(program, 'malloc'):#x}(0x6)")
        self.addCleanup(self.events, f"-:{event}")
        self.enable(event, "1")
        self.addCleanup(self.enable, event, "0")
        return program

    @staticmethod
    def events(line):
        fd = os.open(f"{TRACING}/uprobe_events", os.O_WRONLY | os.O_APPEND)  # open() would seek in it
        os.write(fd, line.encode() + b"\n")
        os.close(fd)

    @staticmethod
    def enable(event, value):
        with open(f"{TRACING}/events/{event}/enable", "w", encoding="ascii") as f:
            f.write(value)

    def test_sizes_names_what_it_does_not_see(self):
        program = self.occupied("calls_victim_static")
        out = mallow("probe", "sizes", "--", program)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn(f"malloc cannot be probed: {WHY}\n", out.stderr)
        source = out.stdout.splitlines()[1].split(": ")[1].split(",")
        self.assertNotIn("malloc", source)
        self.assertIn("realloc", source)

    def test_nothing_else_to_see(self):
        program = self.occupied("calls_victim_static")
        out = mallow("probe", "sizes", "--function", "malloc", "--", program)
        self.assertEqual((out.returncode, out.stderr), (125, f"mallow probe: cannot probe {program}: {WHY}\n"))

    def test_calls_names_it(self):
        program = self.occupied("calls_victim_static")
        out = mallow("probe", "calls", "--lib", program, "--function", "*alloc", "--", program)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn(f"malloc cannot be probed: {WHY}\n", out.stderr)

    def test_no_recording_with_holes(self):
        program = self.occupied("attach_victim_static")
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as p:
            reads(p)
            out = subprocess.run([MALLOW, "record", "--how", "probe", "-p", str(p.pid), "-o", os.path.join(self.folder, "x.mlw")],
                                 capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual((out.returncode, out.stderr),
                         (1, f"mallow record: cannot probe all functions of {program}: {WHY}\n"))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x.mlw")))


if __name__ == "__main__":
    main()
