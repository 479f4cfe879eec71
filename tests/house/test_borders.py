"""Sees borders.py fail: on a tree with each kind of crossing, and on libraries with each fault."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import borders  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text=""):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def complaints(self):
        return borders.check_includes(self.root)

    def test_an_empty_tree_is_not_sound(self):
        self.assertEqual(len(self.complaints()), 1)

    def test_what_is_allowed_passes(self):
        self.write("src/base/error.h", "#include <stdarg.h>\n")
        self.write("src/format/op.h", "#include <stdint.h>\n")
        self.write("src/trace/trace.h", '#include "format/op.h"\n')
        self.write("src/trace/trace.c", '#include "trace.h"\n#include "base/error.h"\n#include <zstd.h>\n')
        self.write("src/model/live.c", '#include "trace/trace.h"\n')
        self.assertEqual(self.complaints(), [])

    def test_the_table_of_the_architecture(self):
        for name in borders.OWNS:
            self.write(f"src/{name}/meson.build")
        page = f"text\n{borders.BEGIN}{borders.table()}{borders.END}"
        self.write("ARCHITECTURE.md", page)
        self.assertEqual(borders.check_table(self.root), [])
        self.write("ARCHITECTURE.md", page.replace("`src/trace/`", "`src/file/`"))
        self.assertEqual(len(borders.check_table(self.root)), 1)
        self.write("ARCHITECTURE.md", page)
        self.write("src/other/meson.build")
        self.assertEqual(len(borders.check_table(self.root)), 1)

    def test_each_crossing_is_seen(self):
        self.write("src/base/error.h")
        self.write("src/trace/trace.h")
        self.write("src/trace/column.h")
        self.write("src/cli/command.h")
        for path, text, word in [
                ("src/preload/a.c", '#include "base/error.h"\n', "preload/ may include arch, format"),
                ("src/preload/b.c", '#include "../base/error.h"\n', "preload/ may include arch, format"),
                ("src/base/a.c", '#include "cli/command.h"\n', "base/ may include nothing"),
                ("src/symbol/a.c", '#include "trace/trace.h"\n', "symbol/ may include arch, base, trust"),
                ("src/model/a.c", '#include "trace/column.h"\n', "may include trace/trace.h"),
                ("src/format/a.h", "#include <stdio.h>\n", "format/ may use"),
                ("src/model/b.c", "# include <elfutils/libdw.h>\n", "only inspect, symbol may know"),
                ("src/report/a.c", '#include "report/gone.h"\n', "is not there"),
                ("src/report/b.c", '#include "trace/trace.h"\n#include "b2.c"\n', "not a header"),
                ("src/utils/a.c", "", "not in the table")]:
            with self.subTest(path=path, text=text):
                full = self.write(path, text)
                found = self.complaints()
                self.assertTrue(any(word in line for line in found), found)
                os.remove(full)
        self.assertEqual(self.complaints(), [])


class Library(unittest.TestCase):
    def build(self, source, *options):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path, out = os.path.join(folder, "a.c"), os.path.join(folder, "liba.so")
        with open(path, "w", encoding="utf-8") as f:
            f.write(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", out, path, *options], check=True)
        return out

    def complaints(self, source, *options, exports=frozenset({"malloc"})):
        return borders.check_library(self.build(source, *options), exports=exports, allowed={"dlsym", *CRT})

    def test_a_sound_one_passes(self):
        self.assertEqual(self.complaints("void *malloc(unsigned long n) { return (void *)n; }"), [])

    def test_a_foreign_export_is_seen(self):
        found = self.complaints("void *malloc(unsigned long n) { return (void *)n; } int helper(void) { return 1; }")
        self.assertEqual(found, ["liba.so exports helper, which is not on the list of exports"])

    def test_a_missing_export_is_seen(self):
        found = self.complaints("void free(void *p) { (void)p; }", exports={"free", "malloc"})
        self.assertEqual(found, ["liba.so does not export malloc"])

    def test_a_forbidden_need_is_seen(self):
        found = self.complaints("int puts(const char *); void *malloc(unsigned long n)"
                                "{ puts(\"x\"); return (void *)n; }", "-fno-builtin")
        self.assertEqual(found, ["liba.so needs puts, which is not on the list of allowed symbols"])

    def test_an_export_that_is_called_by_its_name_is_seen(self):
        body = "void *malloc(unsigned long n) { return (void *)n; }"
        for more in ("void *valloc(unsigned long n) { return malloc(n); }",
                     "void *(*table[])(unsigned long) = {malloc}; int valloc(void) { return table[0] != 0; }"):
            found = self.complaints(body + more, "-fno-builtin", exports={"malloc", "valloc", "table"} if "table" in more
                                    else {"malloc", "valloc"})
            self.assertIn("liba.so finds its own malloc by a name that a program may define: call entry_malloc", found)

    def test_a_hidden_alias_passes(self):
        self.assertEqual(self.complaints(
            "__attribute__((visibility(\"hidden\"))) void *entry_malloc(unsigned long n) { return (void *)n; }"
            "void *malloc(unsigned long) __attribute__((alias(\"entry_malloc\")));"
            "void *valloc(unsigned long n) { return entry_malloc(n + 1); }", exports={"malloc", "valloc"}), [])

    def test_another_library_is_seen(self):
        found = self.complaints("double cos(double); void *malloc(unsigned long n)"
                                "{ return (void *)(long)cos((double)n); }", "-lm")
        self.assertIn("liba.so is linked with libm.so.6; only libc and the loader are allowed", found)


CRT = {"__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"}

if __name__ == "__main__":
    unittest.main()
