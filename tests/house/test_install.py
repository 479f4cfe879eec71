"""An installation has everything, works from where it stands, even when it was moved, and can be taken away.
Usage: test_install.py BUILD_ROOT"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop()
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Install(unittest.TestCase):
    def test_everything_is_there_and_finds_itself(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder],
                       check=True, stdout=subprocess.DEVNULL)
        files = {}
        for root, _, names in os.walk(folder):
            files.update({name if name != "mallow" else os.path.join(os.path.basename(root), name):
                          os.path.join(root, name) for name in names})
        for name in ("bin/mallow", "completions/mallow", "_mallow", "mallow.fish", "mallow.pc", "libmallow-record.so", "libmallow-watch.so", "libmallow-attach.so", "libmallow-attach-record.so",
                     "libmallow-arenas.so", "mallow.h",
                     "mallow.1", "mallow-doctor.1", "mallow-format.5", "glossary.md", "format.md", "cc1.mwl.zst"):
            self.assertIn(name, files)
        out = subprocess.run([files["bin/mallow"], "doctor", "--json"], capture_output=True, text=True,
                             check=False)
        check = {c["name"]: c for c in json.loads(out.stdout)["checks"]}["record-library"]
        self.assertEqual(check["detail"], os.path.realpath(files["libmallow-record.so"]))
        out = subprocess.run([files["bin/mallow"], "compare", "--corpus", "--json", "--alloc", "glibc", "--repeat", "2"],
                             capture_output=True, text=True, check=True)
        self.assertGreater(len(json.loads(out.stdout)["corpus"]), 5)
        # A file that is not mallow's stays, and so does its directory.
        mine = os.path.join(os.path.dirname(files["libmallow-record.so"]), "mine")
        with open(mine, "w", encoding="utf-8"):
            pass
        subprocess.run([os.path.join(SOURCE, "scripts", "uninstall"), BUILD, folder], check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual([os.path.join(root, name) for root, _, names in os.walk(folder) for name in names], [mine])
        again = subprocess.run([os.path.join(SOURCE, "scripts", "uninstall"), BUILD, folder], check=False,
                               capture_output=True, text=True)
        self.assertEqual((again.returncode, again.stdout), (1, "uninstall: removed 0 files\n"))


if __name__ == "__main__":
    unittest.main()
