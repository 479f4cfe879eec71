"""Sees doors.py fail: on each kind of call, on a list that is too long, on a tree that is not there."""
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import doors  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text):
        path = os.path.join(self.root, "src", path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def complaints(self, allowed=None):
        return doors.check(self.root, allowed or {})

    def test_an_empty_tree_is_not_sound(self):
        self.assertEqual(len(self.complaints()), 1)

    def test_what_is_no_matter_of_trust_passes(self):
        self.write("trace/a.c", """
            /* open(path) */ // unlink(path)
            const char *text = "rename(a, b)";
            int a(struct s *s) { return trust_open(0, 0, 0, 0, 0) + s->open(1) + s.open(2) + fstat(fd, &st); }
            void *b(void) { return mmap(NULL, (size_t)f(1),
                                        PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
            int reopen(int fd); int is_open(int x) { return reopen(x); }
        """)
        for folder in doors.UNGUARDED:
            self.write(f"{folder}/a.c", "int a(void) { return open(path, 0); }")
        self.assertEqual(self.complaints(), [])

    def test_each_function_is_seen_in_each_folder(self):
        """In those that there are, and in one that nobody has heard of."""
        real = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        folders = doors.guarded(real)
        self.assertLess({"advise", "base", "cli", "record", "workload"}, set(folders))
        self.assertFalse(set(folders) & {"trust", "preload"})
        for folder in [*folders, "fresh"]:
            for function in doors.FUNCTIONS:
                self.write(f"{folder}/a.c", f"int a(void)\n{{\n    return (int){function}\n(path, 0);\n}}\n")
                found = self.complaints()
                self.assertEqual(len(found), 1, (folder, function))
                self.assertIn(f"src/{folder}/a.c:3: calls {function}()", found[0])
            os.remove(os.path.join(self.root, "src", folder, "a.c"))
            self.write(f"{folder}/b.c", "int b;\n")

    def test_a_mapping_of_a_file_is_seen(self):
        self.write("watch/a.c", "void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0); int MAP_ANONYMOUS;\n")
        self.assertEqual(len(self.complaints()), 1)

    def test_more_than_is_allowed_is_seen(self):
        self.write("record/a.c", 'int a = open("/proc/loadavg", 0);\n')
        allowed = {("record/a.c", "open"): (1, "a reason")}
        self.assertEqual(self.complaints(allowed), [])
        self.write("record/a.c", 'int a = open("/proc/loadavg", 0), b = open(path, 0);\n')
        self.assertEqual(len(self.complaints(allowed)), 1)

    def test_a_list_that_is_too_long_is_seen(self):
        self.write("record/a.c", "int a;\n")
        self.assertEqual(len(self.complaints({("record/a.c", "open"): (1, "a reason")})), 1)

    def test_every_exception_has_a_reason(self):
        for entry, (most, why) in doors.ALLOWED.items():
            self.assertTrue(most > 0 and len(why) > 10, entry)


if __name__ == "__main__":
    unittest.main()
