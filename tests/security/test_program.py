"""What mallow reads of programs that another user owns, as root: their symbols, their debug information, and
the files that these name."""
import os
import re
import shutil
import subprocess

import attack
from attack import OTHER, PATIENCE

SOURCE = r"""
#include <stdlib.h>
static void *volatile kept;
static inline __attribute__((always_inline)) void step(void) { kept = malloc(100); }
static __attribute__((noinline)) void inner(void) { step(); }
int main(void) { inner(); return 0; }
"""


def cc(*argv):
    subprocess.run(["cc", *argv], check=True, timeout=PATIENCE)


class Program:
    def record(self, program):
        path = self.nb + "/run.mlw"
        subprocess.run([attack.MALLOW, "record", "-q", "-o", path, "--", program], check=True, timeout=PATIENCE,
                       stdin=subprocess.DEVNULL)
        for name in (program, path):
            os.chown(name, OTHER, OTHER)
        return path

    def make(self, *flags):
        source, program = self.nb + "/program.c", self.nb + "/program"
        with open(source, "w", encoding="ascii") as f:
            f.write(SOURCE)
        cc("-g", "-O1", *flags, "-o", program, source)
        return program

    def report(self, path):
        done = self.mallow("report", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("inner", done.stdout)
        return done.stdout

    def test_it_is_cut_while_it_is_read(self):
        program = self.make()
        path = self.record(program)
        self.assertIn("program.c", self.report(path))
        p = self.other("exchange", "cut", program)
        for _ in range(25):
            self.assertEqual(self.mallow("report", path).returncode, 0)
        p.stdin.close()
        self.assertEqual(p.wait(PATIENCE), 0)

    def test_another_file_is_named(self):
        """A FIFO in the place of a split unit, or of the shared file of dwz: libdw would open both by their paths."""
        os.mkfifo(self.nb + "/fifo")
        program = self.make("-gsplit-dwarf", "-gdwarf-5", "-c")
        os.rename(program, self.nb + "/program.o")
        cc("-o", program, self.nb + "/program.o")
        path = self.record(program)
        units = [name for name in os.listdir(self.nb) if name.endswith(".dwo")]
        self.assertTrue(units)
        for name in units:
            os.rename(self.nb + "/fifo", f"{self.nb}/{name}")
        self.report(path)

    def test_a_shared_file_is_named(self):
        os.mkfifo(self.nb + "/fifo")
        text = self.make("-gdwarf-4", "-S")
        with open(text, encoding="ascii") as f:
            # names that are in .debug_str (DW_FORM_strp) are in the shared file (DW_FORM_GNU_strp_alt)
            changed, count = re.subn(r"(\.uleb128 0x3\s[^.]*\.uleb128 )0xe\b", r"\g<1>0x1f21", f.read())
        self.assertGreater(count, 0)
        with open(text + ".s", "w", encoding="ascii") as f:
            f.write(f'{changed}\n.section .gnu_debugaltlink,"",@progbits\n.asciz "{self.nb}/fifo"\n.fill 20,1,7\n')
        cc("-o", text, text + ".s")
        path = self.record(text)
        self.assertNotIn("program.c", self.report(path))

    def test_the_caller_s_own_is_followed(self):
        """What root owns may name files: split units are read."""
        program = self.make("-gsplit-dwarf", "-gdwarf-5", "-c")
        os.rename(program, self.nb + "/program.o")
        cc("-o", program, self.nb + "/program.o")
        path = self.record(program)
        self.assertNotIn("step", self.report(path))
        os.chown(program, 0, 0)
        self.assertIn("step", self.report(path))

    def test_what_a_process_maps_is_a_fifo(self):
        """Under the name that /proc gives."""
        plugin = self.nb + "/plugin.so"
        shutil.copy("/bin/true", plugin)
        os.chown(plugin, OTHER, OTHER)
        p = self.other("mapped", plugin)
        pid = str(p.pid)
        for line in (("probe", "calls", "--duration=1", "-p", pid), ("probe", "calls", "--function=no_such", "--duration=1", "-p", pid),
                     ("record", "--how=probe", "--duration=1", "-o", self.root + "/probed.mlw", "-p", pid),
                     ("record", "--duration=1", "-o", self.root + "/attached.mlw", "-p", pid),
                     ("heap", pid), ("doctor", plugin)):
            self.mallow(*line)
            self.assertIsNone(p.poll(), line)


globals().update(attack.places(Program))
