"""Who is not attached to: a process for each reason of src/inject/reasons.h, which is refused with that reason and
with what works instead, and is left as it was. mallow-watch(1) lists the same reasons."""
import ctypes
import glob
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, ROOT, main, program, wait_until
from mallowtest.memorygroup import MemoryGroup
from test_record import Recorded
from victim import Attached, PLUGIN, Victim, mallow, text_of

AS_ROOT = os.geteuid() == 0
REFUSED = program("attach/attach-refused")
NOBODY = 65534
SEIZE = 0x4206
RECORD = "record", "--how", "inject", "-d", "1s"
# reason -> why none of it can be had in a test
NOT_HERE = {
    "SHADOWED": "needs a processor and a kernel with shadow stacks, and a libc that turns them on",
    "FORBIDDEN": "needs a kernel with yama, whose setting is the whole machine's",
    "OLD_LIBC": "needs glibc before 2.34",
    "MEMORY": "RLIMIT_AS is looked at before, and without it memory for 4 MB is there or the machine is in distress",
    "SHARED": "where files cannot be shared, memory is, which is refused with RLIMIT_AS alone; that is looked at before",
    "BINDINGS": "needs a security module that refuses mprotect without a seccomp filter",
    "WIPE": "needs Linux before 4.14",
    "VERSION": "needs a library of another version of mallow",
    "CALLS": "needs a recording's call that lasts from one recording to the next",
    "STUCK": "needs a thread that the kernel does not stop, as one that waits for a disk or NFS",
}


def table():
    """{name: (reason, instead)} as src/inject/reasons.h has them."""
    text = text_of(os.path.join(ROOT, "src/inject/reasons.h"))
    texts = lambda s, macros: "".join(macros[w] if w in macros else w[1:-1]
                                      for w in re.findall(r'"(?:[^"\\]|\\.)*"|\b[A-Z_]{5,}\b', s))
    macros = {}
    for name, value in re.findall(r'^#define (PROBE_RECORDS|PROBE_COUNTS|START_AGAIN)\s+(".*")$', text, re.M):
        macros[name] = value[1:-1]
    flat = re.sub(r"\\\n", " ", text)
    rows = re.search(r"#define INJECT_REASONS\(X\)(.*?)\n\n", flat, re.S).group(1)
    found = {}
    for row in re.split(r"\bX\((?=[A-Z_]+,)", rows)[1:]:
        name, rest = row.split(",", 1)
        parts = re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', rest.strip().rstrip(")"))
        found[name] = tuple(texts(p, macros) for p in parts)
    return found


class Refused(unittest.TestCase):
    def refused(self, name, pid, *how, command=("watch",), **more):
        """With the reason of that name, in one line, and nothing done."""
        why, instead = REASONS[name]
        status, out, err = mallow(*command, *how, "-p", str(pid), **more)
        if status == 126:
            self.skipTest("mallow is not to be reached by another user here")
        self.assertEqual((status, out), (1, ""), err)
        self.assertIn(f"process {pid} {why}", err)
        self.assertIn(instead.replace("PID", str(pid)), err)
        self.assertEqual(len(err.splitlines()), 1, err)

    def both(self, name, pid):
        self.refused(name, pid)
        with tempfile.TemporaryDirectory() as directory:
            self.refused(name, pid, "-o", os.path.join(directory, "r.mlw"), command=RECORD)
            self.assertEqual(os.listdir(directory), [])

    def unchanged(self, victim, before):
        self.assertEqual(victim.settled(), before)
        self.assertEqual(victim.ours(), 0)

    def kind(self, *command, name, exe=REFUSED, **more):
        """A process of refused.c, refused by both commands."""
        with Victim(command=[exe, *command], **more) as v:
            before = v.settled()
            self.both(name, v.pid)
            self.unchanged(v, before)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    def test_self(self):
        p = subprocess.run(["/bin/sh", "-c", f'exec "{MALLOW}" watch -p $$'], capture_output=True, text=True, timeout=600)
        self.assertEqual((p.returncode, p.stdout), (1, ""), p.stderr)
        self.assertIn(" ".join(REASONS["SELF"][0].split()), p.stderr)

    def test_ended(self):
        p = subprocess.Popen(["/bin/true"])
        wait_until(lambda: text_of(f"/proc/{p.pid}/stat").split()[2] == "Z")
        self.refused("ENDED", p.pid)
        p.wait()

    def test_leader(self):
        """Its first thread has ended, another goes on."""
        with Victim(command=[REFUSED, "leader"]) as v:
            self.refused("LEADER", v.pid)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    def test_kernel(self):
        try:
            of_kernel = text_of("/proc/2/comm") == "kthreadd\n"
        except FileNotFoundError:
            of_kernel = False
        if not AS_ROOT or not of_kernel:
            self.skipTest("the kernel's threads are not to be seen, or not by this user")
        self.refused("KERNEL", 2)

    def test_stopped(self):
        with Victim("sleeping") as v:
            before = v.settled()
            os.kill(v.pid, signal.SIGSTOP)
            wait_until(lambda: "\nState:\tT" in v.text("status"))
            self.both("STOPPED", v.pid)
            self.assertIn("\nState:\tT", v.text("status"))
            os.kill(v.pid, signal.SIGCONT)
            v.goes_on()
            self.unchanged(v, before)

    def test_traced(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with Victim("sleeping") as v:
            if libc.ptrace(SEIZE, v.pid, None, None):
                self.skipTest("tracing is refused here")
            self.both("TRACED", v.pid)

    def test_filtered(self):
        """A filter that allows all, and the strict mode, in which nearly every call kills."""
        with Victim("sleeping") as v:
            before = v.settled()
            v.ask("filter")
            self.both("FILTERED", v.pid)
            self.unchanged(v, before)
        with Victim(command=[REFUSED, "strict"]) as v:
            wait_until(lambda: "\nSeccomp:\t1\n" in v.text("status"))
            self.both("FILTERED", v.pid)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    def test_filtered_since(self):
        """It was attached to before: the end changes nothing in it any more, and says so."""
        with Victim("sleeping") as v:
            Attached(v).kill()
            v.ask("filter")
            status, out, err = mallow("watch", "--detach", str(v.pid))
            self.assertEqual((status, out), (1, ""), err)
            self.assertIn(REASONS["FILTERED"][0], err)
            v.goes_on()

    @unittest.skipUnless(AS_ROOT, "only root can record another user's process")
    def test_rights(self):
        """Of `record` alone, which shares memory with that user."""
        with Victim(command=["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+net_raw",
                             "--ambient-caps=+net_raw", REFUSED, "waiting"]) as v, tempfile.TemporaryDirectory() as folder:
            self.refused("RIGHTS", v.pid, "-o", os.path.join(folder, "r.mlw"), command=RECORD)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    @unittest.skipUnless(AS_ROOT, "only root can be another user")
    def test_user(self):
        with Victim("sleeping") as v:
            self.refused("USER", v.pid, user=NOBODY, group=NOBODY)
            v.goes_on()

    @unittest.skipUnless(AS_ROOT, "only root can start what a set-user-ID program is")
    def test_set_user_id(self):
        """Its real user is the caller, but not its effective one."""
        with Victim("sleeping", preexec_fn=lambda: os.setresuid(NOBODY, 0, 0)) as v:
            self.refused("USER", v.pid, user=NOBODY, group=NOBODY)
            v.goes_on()

    @unittest.skipUnless(AS_ROOT, "root starts it for a user that has no privileges, which may not trace it")
    def test_hidden(self):
        with Victim(command=[REFUSED, "undumpable"], user=NOBODY, group=NOBODY) as v:
            self.refused("HIDDEN", v.pid, user=NOBODY, group=NOBODY)

    def test_machine(self):
        """A program of 32 bits, made here: it waits for signals without end."""
        code = bytes.fromhex("b81d000000cd80ebf7")  # mov $29,%eax (pause); int $0x80; again
        at = 0x08048000
        image = (b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, at + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0) +
                 struct.pack("<8I", 1, 0, at, at, 84 + len(code), 84 + len(code), 5, 4096) + code)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "narrow")
            with open(path, "wb") as f:
                f.write(image)
            os.chmod(path, 0o755)
            try:
                p = subprocess.Popen([path])
            except OSError as problem:
                self.skipTest(f"the kernel runs no programs of 32 bits: {problem}")
            try:
                wait_until(lambda: os.readlink(f"/proc/{p.pid}/exe") == path)
                self.both("MACHINE", p.pid)
                self.assertIsNone(p.poll())
            finally:
                p.kill()
                p.wait()

    def test_static(self):
        for exe in ("attach-fixed", "attach-fixed-pie"):
            self.kind(exe=program("attach/" + exe), name="STATIC")

    def test_begins(self):
        self.kind(exe=program("attach/attach-bare"), name="BEGINS")

    def test_musl(self):
        """musl by its file's name, which is how it is known: a library that bears it."""
        with tempfile.TemporaryDirectory() as directory:
            path = shutil.copy(PLUGIN, os.path.join(directory, "ld-musl-x86_64.so.1"))
            self.kind("libraries", path, name="MUSL")

    def test_space(self):
        with Victim("sleeping") as v:
            size = int(v.text("statm").split()[0]) * 4096
            resource.prlimit(v.pid, resource.RLIMIT_AS, (size + (8 << 20), size + (8 << 20)))
            self.both("SPACE", v.pid)

    def test_group(self):
        try:
            group = MemoryGroup(12 << 20)
        except OSError as problem:
            self.skipTest(str(problem))
        self.addCleanup(group.remove)
        with Victim(command=group.command(REFUSED, "waits")) as v:
            self.both("GROUP", v.pid)

    def test_recorded(self):
        with tempfile.TemporaryDirectory() as directory:
            record = [MALLOW, "record", "-q", "-o", os.path.join(directory, "r.mlw"), "--", REFUSED, "waits"]
            p = subprocess.Popen(record, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.assertEqual(p.stdout.readline(), "ready\n")
            child, = text_of(f"/proc/{p.pid}/task/{p.pid}/children").split()
            self.both("RECORDED", int(child))
            p.communicate(timeout=600)
            self.assertEqual(p.returncode, 0)

    def test_watched(self):
        with Victim(command=[MALLOW, "watch", "-q", "--", REFUSED, "waits"]) as v:
            child, = text_of(f"/proc/{v.pid}/task/{v.pid}/children").split()
            with tempfile.TemporaryDirectory() as directory:
                self.refused("WATCHED", int(child), "-o", os.path.join(directory, "r"), command=RECORD)

    def test_attached(self):
        with Victim("sleeping") as v, tempfile.TemporaryDirectory() as directory:
            watch = Attached(v)
            self.refused("ATTACHED", v.pid, "-o", os.path.join(directory, "r"), command=RECORD)
            watch.end()
            recorded = Recorded(v)
            self.refused("ATTACHED", v.pid)
            self.refused("RECORDED", v.pid, "-o", os.path.join(directory, "r"), command=RECORD)
            recorded.end()
            v.goes_on()

    def test_built_in(self):
        self.kind("waits", exe=program("attach/attach-marked"), name="BUILT_IN")

    def test_foreign(self):
        """Preloaded, and another's by the name of its file."""
        found = glob.glob("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
        if found:
            with Victim("churn", env={**os.environ, "LD_PRELOAD": found[0]}) as v:
                before = v.settled()
                self.both("FOREIGN", v.pid)
                self.unchanged(v, before)
        with tempfile.TemporaryDirectory() as directory:
            path = shutil.copy(PLUGIN, os.path.join(directory, "libtcmalloc_minimal.so.4"))
            self.kind("libraries", path, name="FOREIGN")

    def test_own(self):
        with Victim(command=[program("attach/attach-own"), "waits"]) as v:
            self.both("OWN", v.pid)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    def test_container(self):
        library = os.path.dirname(glob.glob(os.path.join(os.path.dirname(MALLOW), "lib", "libmallow-attach.so"))[0])
        command = [REFUSED, "container", library]
        p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        if p.stdout == "no namespace\n":
            self.skipTest("no mount namespace can be had here")
        self.kind("container", library, name="CONTAINER")

    def test_linker(self):
        """Other libraries have taken all room for thread-local variables."""
        with tempfile.TemporaryDirectory() as directory:
            copies = [shutil.copy(program("attach/libattach-room.so"), os.path.join(directory, f"{i}.so")) for i in range(200)]
            with Victim(command=[REFUSED, "libraries", *copies]) as v:
                before = v.settled()
                self.assertNotIn("/199.so", v.text("maps"))
                self.both("LINKER", v.pid)
                self.unchanged(v, before)
                v.process.stdin.close()
                self.assertEqual(v.process.wait(600), 0)

    def test_point(self):
        """Its only thread waits in a handler of a signal, which may have interrupted malloc."""
        with Victim(command=[REFUSED, "handler"]) as v:
            before = v.settled()
            self.refused("POINT", v.pid)
            self.unchanged(v, before)
            v.process.stdin.close()
            self.assertEqual(v.process.wait(600), 0)

    def test_options(self):
        with Victim("sleeping") as v:
            before = v.settled()
            for how, word in ((("--how", "preloaded"), "runs without libmallow-watch.so"), (("--guard", "all"), "none can be guarded")):
                status, out, err = mallow("watch", "-p", str(v.pid), *how)
                self.assertEqual((status, out), (1, ""), err)
                self.assertIn(word, err)
            self.unchanged(v, before)


class Table(unittest.TestCase):
    def test_all_are_tried(self):
        tried = set(re.findall(r'(?:refused|both)\("([A-Z_]+)"|name="([A-Z_]+)"', text_of(__file__)))
        tried = {a or b for a, b in tried} | {"SELF"}
        self.assertEqual(tried & set(NOT_HERE), set())
        self.assertEqual(tried | set(NOT_HERE), set(REASONS))

    def test_manual(self):
        """Every reason and what works instead, in the words of the messages."""
        page = text_of(os.path.join(ROOT, "docs/man/mallow-watch.1"))
        listed = page.split('.SS "Who is refused"\n')[1].split("\n.SH ")[0].replace("\\-", "-").replace("\\&", "")
        rows = re.findall(r"^\.TP\n(.*)\n((?:(?!\.).*\n?)+)", listed, re.M)
        self.assertEqual([(why, instead.strip()) for why, instead in rows], list(REASONS.values()))


def not_here(name, why):
    def test(self):
        self.skipTest(f"{REASONS[name][0]}: {why}")
    return test


for _name, _why in NOT_HERE.items():
    setattr(Refused, "test_" + _name.lower(), not_here(_name, _why))

if __name__ == "__main__":
    REASONS = table()
    main()
