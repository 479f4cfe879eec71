"""Sees owners.py fail: on a line of another directory, and on an exception that nothing needs."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import owners  # noqa: E402


class Owners(unittest.TestCase):
    def complaints(self, **files):
        with tempfile.TemporaryDirectory() as root:
            for place, text in files.items():
                path = os.path.join(root, "src", place.replace("__", "/") + ".c")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            return owners.check(root)

    def test_owners(self):
        walk = "uint32_t f(void) { return image->nodes[3].parent; }\n"
        needed = {o.removesuffix(".c").replace("/", "__"): walk for _, _, may in owners.RULES for o in may if "/" in o}
        needed["trace__a"] = walk
        self.assertEqual(self.complaints(**needed), [])
        self.assertEqual(len(self.complaints(**needed, report__a="\n" + walk)), 1)
        self.assertIn("src/report/a.c:2:", self.complaints(**needed, report__a="\n" + walk)[0])
        self.assertEqual(self.complaints(**needed, report__a="/* image->nodes[3] */ char *a = \"x.nodes[1]\";"), [])
        del needed["tune__forest"]
        self.assertEqual(len(self.complaints(**needed)), 1)


if __name__ == "__main__":
    unittest.main()
