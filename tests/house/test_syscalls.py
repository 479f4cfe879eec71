"""Sees syscalls.py fail: on this tree with one fault of each kind in it."""
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import syscalls  # noqa: E402

ROOT = sys.argv.pop(1)


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(os.path.join(ROOT, "src", "preload"), os.path.join(self.root, "src", "preload"))

    def change(self, path, old, new):
        path = os.path.join(self.root, "src", "preload", path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))

    def complaint(self, *words):
        bad = syscalls.check_sources(self.root)
        self.assertEqual(len(bad), 1, bad)
        for word in words:
            self.assertIn(word, bad[0])

    def test_the_tree_itself(self):
        self.assertEqual(syscalls.check_sources(self.root), [])

    def test_a_call_that_is_not_listed(self):
        self.change("watch/confine.c", "{SYS_flock, {0, 4}},", "")
        self.complaint("segment.c", "SYS_flock")

    def test_a_new_call(self):
        self.change("record/stream.c", "void stream_key_init(void)\n{", "void stream_key_init(void)\n{ sys_call(SYS_sync, 0);")
        self.complaint("stream.c", "SYS_sync")

    def test_a_door_of_its_own(self):
        self.change("record/mapping.c", "#include <sys/mman.h>",
                    "void f(void) { __asm__ volatile(\"syscall\"); }\n#include <sys/mman.h>")
        self.complaint("mapping.c", "beside the door")

    def test_a_call_past_the_closed_door(self):
        self.change("watch/left.c", "sys_call(SYS_kill,", "sys_decided(SYS_kill,")
        self.complaint("left.c", "SYS_kill passes the closed door")

    def test_a_number_that_is_not_there_to_be_read(self):
        self.change("record/stream.c", "#include \"recorder.h\"", "#include \"recorder.h\"\n#define ANY(n) sys_decided(n, 0)\n")
        self.complaint("stream.c", "without a number")

    def test_instructions(self):
        code = ["0 <f>:", " 1:\tmov    $0xa2,%eax", " 2:\tsyscall", " 3:\tmov    $0x3,%r14d", " 4:\tmov    %r14,%rax",
                " 5:\tsyscall", " 6:\txor    %eax,%eax", " 7:\tsyscall", "8 <g>:", " 9:\tsyscall"]
        self.assertEqual(list(syscalls.numbers_in(code)), [0xa2, 3, 0, None])

    def test_no_list(self):
        self.change("record/confine.c", "guest_calls(unsigned *count)", "guest_list(unsigned *count)")
        self.assertIn("record/confine.c: guest_calls has no list", syscalls.check_sources(self.root))


if __name__ == "__main__":
    unittest.main()
