"""Whom the probes of a process reach: it alone, or others that map the same file, who are named beforehand."""
import json
import os
import shutil
import signal
import subprocess
import time

from mallowtest import MALLOW
from probing import CAT, Case, attached, main, mallow, reads, victim

LIBC = "libc.so.6"


def code_at(pid, offset):
    """The byte of the C library's code that lies at this offset of its file, in a process."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        for line in f:
            place, mode, start, _, _, *path = line.split()
            begin, end = (int(x, 16) for x in place.split("-"))
            if path and path[0].endswith(LIBC) and "x" in mode and begin <= begin + offset - int(start, 16) < end:
                with open(f"/proc/{pid}/mem", "rb") as memory:
                    memory.seek(begin + offset - int(start, 16))
                    return memory.read(1)
    raise AssertionError("no C library")


class Reach(Case):
    def setUp(self):
        library = mallow("probe", "calls", "--list", "--json", "--lib", LIBC, "--function", "malloc")
        [self.malloc] = [f["offset"] for f in json.loads(library.stdout)["functions"]]

    def start(self, *command):
        p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for end in (p.wait, p.kill, p.stdin.close, p.stdout.close, p.stderr.close):
            self.addCleanup(end)
        return p

    def bystander(self, name="mallow_beside"):
        """A process of that name, which waits for input."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            shutil.copy(CAT, path)
        p = self.start(path)
        reads(p)
        return p

    @staticmethod
    def child_of(parent, name):
        """Its child of that name, once it is there."""
        for _ in range(12000):
            with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as f:
                for child in f.read().split():
                    with open(f"/proc/{child}/comm", encoding="ascii") as comm:
                        if comm.read() == name + "\n":
                            return int(child)
            time.sleep(0.01)
        raise AssertionError(f"there is no child {name}")

    def ended(self, probe):
        """What it said, and the document."""
        out, err = probe.communicate(timeout=600)
        self.assertEqual(probe.returncode, 0, err)
        return err.decode(), json.loads(out)

    def of(self, document, name):
        return [b["processes"] for b in document["bystanders"] if b["comm"] == name]

    def test_one_process_alone(self):
        target, beside = self.start(victim("calls_victim"), "wait"), self.bystander()
        reads(target)
        before = code_at(beside.pid, self.malloc)
        probe = self.start(MALLOW, "probe", "calls", "--json", "--no-follow", "-p", str(target.pid))
        attached(probe)
        self.assertEqual((code_at(target.pid, self.malloc), code_at(beside.pid, self.malloc)), (b"\xcc", before))
        self.assertEqual(code_at(probe.pid, self.malloc), before)
        target.communicate(b"g")
        said, document = self.ended(probe)
        self.assertEqual((said, document["bystanders"]), ("", []))
        self.assertGreater(sum(f["calls"] for f in document["functions"]), 0)

    def test_others_are_named_beforehand(self):
        self.bystander()
        self.bystander()
        out = mallow("probe", "calls", "--json", "--function", "malloc", "-o", os.path.join(self.folder, "out"), "--", "/bin/sh", "-c",
                     "echo it begins >&2; /bin/true")
        self.assertEqual(out.returncode, 0, out.stderr)
        first, then = out.stderr.splitlines()
        self.assertRegex(first, rf"the probes slow \d+ other processes with \S+{LIBC} as well \(.*\): Linux cannot limit them to a process "
                                r"with the children that it will have, but to it alone \(--no-follow\)$")
        self.assertEqual(then, "it begins")
        with open(os.path.join(self.folder, "out"), encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(self.of(document, "mallow_beside"), [2])
        self.assertEqual({b["module"] for b in document["bystanders"]}, {document["source"].split(" of ")[1].split(":")[0]})

    def test_who_is_meant_is_not_named(self):
        """A process and its child; and, of a name, all that have it."""
        self.bystander("mallow_other")
        shell = self.start("/bin/sh", "-c", f"{self.bystander().args[0]}; :")
        reads(self.child_of(shell, "mallow_beside"))
        for options, beside, other in ((("-p", str(shell.pid)), [1], [1]), (("-a", "--comm", "mallow_beside"), [], [1]), (("-a",), [], [])):
            probe = self.start(MALLOW, "probe", "calls", "--json", "-d", "1ms", "--function", "malloc", *options)
            said, document = self.ended(probe)
            self.assertEqual((self.of(document, "mallow_beside"), self.of(document, "mallow_other")), (beside, other))
            self.assertEqual(said.count("\n"), 1 if document["bystanders"] else 0)
            self.assertEqual("Linux cannot limit them to a name" in said, "--comm" in options)

    def test_a_first_thread_that_has_ended(self):
        """The kernel asks it for the memory of the process, which it no longer has."""
        target = self.start(victim("attach_victim"), "leader")
        for _ in range(12000):
            threads = os.listdir(f"/proc/{target.pid}/task")
            if len(threads) == 2:
                with open(f"/proc/{target.pid}/task/{max(threads, key=int)}/syscall", encoding="ascii") as f:
                    if f.read().split()[:2] == ["0", "0x0"]:
                        break
        probe = self.start(MALLOW, "probe", "calls", "--json", "--no-follow", "-p", str(target.pid))
        attached(probe)
        target.communicate(b"g")
        said, document = self.ended(probe)
        self.assertGreater(sum(f["calls"] for f in document["functions"]), 1000)
        self.assertEqual("this kernel cannot limit them to this process" in said, bool(document["bystanders"]))

    def test_one_that_is_watched(self):
        """The library writes the fast form of its entries over them: the kernel runs their first instruction from the file while a
        probe is there, and writes its first byte back afterwards. Before, the process died of the mixture."""
        for attached_to in False, True:
            for probe in ("probe", "calls", "-d", "10ms"), ("record", "-q", "--how", "probe", "-o", os.path.join(self.folder, "r.mlw")):
                with self.subTest(attached_to=attached_to, probe=probe[0]):
                    if attached_to:
                        target = self.start(victim("calls_victim"), "wait")
                        pid = target.pid
                        reads(pid)
                        watch = self.start(MALLOW, "watch", "--every", "1h", "-p", str(pid))
                        self.assertIn(b"attached to process", watch.stderr.readline())
                    else:
                        target = watch = self.start(MALLOW, "watch", "--every", "1h", "--", victim("calls_victim"), "wait")
                        pid = self.child_of(target, "calls_victim")
                        reads(pid)
                    p = self.start(MALLOW, *probe, "-p", str(pid))
                    if probe[0] == "record":
                        attached(p)
                        p.send_signal(signal.SIGINT)
                    _, said = p.communicate(timeout=600)
                    self.assertEqual(p.returncode, 0, said)
                    _, said = target.communicate(b"g")
                    self.assertEqual(target.returncode, 0, said)
                    watch.terminate()
                    watch.wait()

    def test_a_function_that_was_patched(self):
        """The kernel would run what the file has, and put its first byte in front of the patch."""
        target = self.start(victim("patched_victim"))
        reads(target)
        out = mallow("probe", "calls", "--json", "-d", "10ms", "-p", target.pid, "--lib", victim("patched_victim"), "--function", "*ted",
                     "--function", "patched")
        self.assertEqual(out.returncode, 0, out.stderr)
        document = json.loads(out.stdout)
        self.assertEqual([f["function"] for f in document["not_placed"]], ["patched"])
        self.assertIn("patched cannot be probed: its code in the process differs from its file\n", out.stderr)
        target.communicate(b"g")
        self.assertEqual(target.returncode, 0)


if __name__ == "__main__":
    main()
