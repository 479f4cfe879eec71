"""mallow doctor on programs built to have each trouble."""
import json
import os
import shutil
import stat
import struct
import subprocess

from mallowtest import MALLOW, Test
from cli import mallow

C_MAIN = "int main(void) { return 0; }\n"
C_MALLOC = ("#include <stddef.h>\nstatic char room[4096]; static size_t used;\n"
            "void *malloc(size_t n) { void *p = room + used; used += n; return p; }\n"
            "void free(void *p) { (void)p; }\n" + C_MAIN)
C_CALLS = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100; i++) if (!malloc(1000)) return 1; return 0; }\n"
C_LOADER = """__asm__(".globl begin\\nbegin:\\n"
        "mov (%rsp), %rcx\\nlea 8(%rsp), %rsi\\nlea 8(%rsi, %rcx, 8), %rdx\\nlea path(%rip), %rdi\\n"
        "mov $59, %eax\\nsyscall\\nmov $99, %edi\\nmov $60, %eax\\nsyscall\\n"
        "path: .asciz \\"/lib64/ld-linux-x86-64.so.2\\"\\n");
"""


class Doctor(Test):
    def setUp(self):
        os.chmod(self.folder, 0o755)

    def path(self, name):
        return os.path.join(self.folder, name)

    def build(self, source, *options):
        out = self.path("program")
        subprocess.run(["cc", "-x", "c", "-", "-o", out, *options], input=source, text=True, check=True)
        return out

    def examine(self, program, **more):
        out = mallow("doctor", "--json", program, **more)
        self.assertEqual(out.stderr, "")
        document = json.loads(out.stdout)
        self.assertEqual(document["schema"], 1)
        found = document["program"]
        if document["works"]:
            self.assertEqual(out.returncode, 1 if found["verdict"] == "impossible" else 0)
        return found

    def reasons(self, found):
        return " / ".join(r["what"] for r in found["reasons"])

    def test_the_machine(self):
        out = mallow("doctor", "--json")
        document = json.loads(out.stdout)
        checks = {c["name"]: c for c in document["checks"]}
        self.assertLessEqual({"record-library", "clock", "memfd", "dev-shm", "proc", "libc", "debuginfod",
                              "jemalloc", "bpf", "record-with", "record-p"}, set(checks))
        text = mallow("doctor").stdout
        for check in checks.values():
            self.assertIn(check["status"], ("ok", "limited", "missing"))
            self.assertTrue(check["detail"], check)
            if check["status"] == "ok":
                self.assertEqual((check["why"], check["remedy"]), ("", ""))
            self.assertIn(check["name"], text)
        essential = [c for c in checks.values() if c["weight"] == "essential"]
        self.assertEqual(document["works"], all(c["status"] != "missing" for c in essential))
        self.assertEqual(out.returncode, 0 if document["works"] else 1)

    def test_debuginfod_is_seen(self):
        def status(**env):
            out = mallow("doctor", "--json", env=env)
            return {c["name"]: c for c in json.loads(out.stdout)["checks"]}["debuginfod"]
        self.assertEqual(status(DEBUGINFOD_URLS="")["status"], "limited")
        self.assertIn("export DEBUGINFOD_URLS=", status(DEBUGINFOD_URLS="")["remedy"])
        self.assertEqual(status(DEBUGINFOD_URLS="http://localhost:1")["status"], "ok")

    def test_the_library_that_is_not_there(self):
        copy = self.path("mallow")
        shutil.copy(MALLOW, copy)
        out = subprocess.run([copy, "doctor", "--json"], capture_output=True, text=True, check=False)
        check = {c["name"]: c for c in json.loads(out.stdout)["checks"]}["record-library"]
        if check["status"] == "ok":
            self.skipTest(f"mallow is installed on this machine: {check['detail']}")
        self.assertEqual((check["status"], out.returncode), ("missing", 1))
        self.assertIn(os.path.join(os.path.realpath(self.folder), "lib", "libmallow-record.so"), check["why"])

    def test_a_plain_program(self):
        found = self.examine(self.build(C_MAIN))
        self.assertEqual((found["verdict"], found["bits"], found["static"], found["reasons"]),
                         ("recordable", 64, False, []))

    def test_static(self):
        for option in ("-static", "-static-pie"):
            found = self.examine(self.build(C_MAIN, option))
            self.assertTrue(found["static"])
            self.assertEqual(found["verdict"], "impossible")
            self.assertIn("statically linked", self.reasons(found))

    def test_own_malloc(self):
        found = self.examine(self.build(C_MALLOC, "-fno-builtin"))
        self.assertTrue(found["own_malloc"])
        found = self.examine(self.build(C_MALLOC, "-fno-builtin", "-rdynamic"))
        self.assertEqual(found["verdict"], "limited")
        self.assertIn("its own malloc", self.reasons(found))
        found = self.examine(self.build(C_MALLOC, "-fno-builtin", "-fvisibility=hidden"))
        self.assertEqual(found["verdict"], "limited")

    def loader(self, name):
        """A loader that exports malloc, as glibc's does before 2.32, and leaves its work to the machine's."""
        source = self.path("loader.c")
        with open(source, "w", encoding="ascii") as f:
            f.write("void *malloc(unsigned long n) { return (void *)n; }\n" + C_LOADER)
        out = self.path(name)
        subprocess.run(["cc", "-x", "c", source, "-o", out, "-shared", "-fPIC", "-O1", "-fno-builtin", "-nostdlib", "-Wl,-e,begin",
                        "-Wl,-soname," + name], check=True)
        return out

    def test_a_loader(self):
        """Its malloc is for itself."""
        loader = self.loader("ld-linux-x86-64.so.2")
        self.assertEqual(self.examine(loader)["reasons"], [])
        found = self.examine(self.loader("ld-musl-x86_64.so.1"))
        self.assertFalse(found["static"])
        self.assertIn("it runs on musl", self.reasons(found))

    def test_a_program_behind_a_loader(self):
        """What is said is of the program that is loaded."""
        loader = self.loader("ld-linux-x86-64.so.2")
        libraries = self.path("none")
        for options in ([], ["--library-path", libraries], ["--argv0", "other", "--inhibit-cache"]):
            plain = self.build(C_CALLS, "-fno-builtin")
            os.chmod(plain, 0o644)  # it is read, not executed
            out = mallow("record", "-o", self.path("r.mlw"), "--", loader, *options, plain)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertEqual([line for line in out.stderr.splitlines() if "recorded 100 calls" not in line and "next: " not in line], [])
            own = self.build(C_MALLOC, "-fno-builtin", "-rdynamic")
            err = mallow("record", "-o", self.path("r.mlw"), "--", loader, *options, own).stderr
            self.assertIn(f"{own}: it brings its own malloc inside the executable", err)
        out = mallow("record", "-o", self.path("r.mlw"), "--", loader, self.build(C_MAIN, "-static"))
        self.assertEqual(out.returncode, 125)
        self.assertIn("it is statically linked", out.stderr)
        out = mallow("record", "-o", self.path("r.mlw"), "--", loader, self.path("absent"))
        self.assertEqual(out.returncode, 127)
        self.assertNotIn("its own malloc", out.stderr)
        out = mallow("record", "-o", self.path("r.mlw"), "--", self.loader("ld-musl-x86_64.so.1"), "--", self.build(C_MAIN))
        self.assertEqual(out.returncode, 125)
        self.assertIn("it runs on musl", out.stderr)

    def test_a_bundled_allocator(self):
        found = self.examine(self.build("void *_rjem_malloc(unsigned long n) { return (void *)n; }\n" + C_MAIN))
        self.assertEqual(found["verdict"], "limited")
        self.assertIn("jemalloc", self.reasons(found))

    def test_32_bit(self):
        """A program header table is not needed to see it: a 52-byte ELF header tells."""
        path = self.path("old")
        with open(path, "wb") as f:
            f.write(b"\x7fELF\x01\x01\x01" + bytes(9) +
                    struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0))
        os.chmod(path, 0o755)
        found = self.examine(path)
        self.assertEqual((found["bits"], found["verdict"]), (32, "impossible"))
        self.assertIn("32-bit", self.reasons(found))

    def test_setuid(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a program of another user")
        path = self.build(C_MAIN)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o755 | stat.S_ISUID)
        found = self.examine(path)
        self.assertTrue(found["secure"])
        self.assertEqual(found["verdict"], "impossible")
        self.assertIn("setuid", self.reasons(found))
        os.chown(path, 0, 0)
        os.chmod(path, 0o755 | stat.S_ISUID)
        self.assertFalse(self.examine(path)["secure"])  # root gains nothing by it

    def test_scripts(self):
        program = self.build(C_MAIN, "-static")
        for first in (f"#!{program} -x\n", f"#! \t{program}\n"):
            script = self.path("script")
            with open(script, "w", encoding="utf-8") as f:
                f.write(first)
            os.chmod(script, 0o755)
            found = self.examine(script)
            self.assertEqual((found["path"], found["script"], found["verdict"]), (program, script, "impossible"))
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/usr/bin/env -S A=1 program -x\n")
        found = self.examine(script, env={"PATH": self.folder + ":/usr/bin:/bin"})
        self.assertEqual(found["path"], program)
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"#!{script}\n")
        out = mallow("doctor", script)
        self.assertEqual(out.returncode, 1)
        self.assertIn("too many scripts", out.stderr)

    def test_found_in_path(self):
        program = self.build(C_MAIN)
        found = self.examine("program", env={"PATH": "/nowhere:" + self.folder + ":/usr/bin:/bin"})
        self.assertEqual(found["path"], program)

    def test_what_cannot_be_run(self):
        plain = self.path("plain")
        with open(plain, "w", encoding="utf-8") as f:
            f.write("x")
        for program, word in (("/nowhere/at-all", "No such file"), ("no-such-program-anywhere", "PATH"),
                              (plain, "may not be executed"), (self.folder, "directory"), ("", "empty")):
            out = mallow("doctor", program)
            self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (1, "", 1))
            self.assertIn(word, out.stderr)

    def test_damaged_programs(self):
        """A program cut short anywhere, or with bytes changed, is never more than an answer."""
        with open(self.build(C_MAIN), "rb") as f:
            whole = f.read()
        path = self.path("damaged")
        for step in range(0, 120):
            damaged = bytearray(whole[: len(whole) * (step % 40 + 1) // 40] if step < 40 else whole)
            if step >= 40:
                for i in range(step, len(damaged), 131 + step):
                    damaged[i] ^= 0xFF if i > 16 else 0
            with open(path, "wb") as f:
                f.write(damaged)
            os.chmod(path, 0o755)
            out = mallow("doctor", "--json", path)
            self.assertIn(out.returncode, (0, 1), (step, out.stderr))
