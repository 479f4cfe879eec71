"""The page of `mallow report --html` runs its own script and no other: the policy names it by its hash."""
import base64
import hashlib
import re
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW



class Page(unittest.TestCase):
    def test_policy_names_what_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            run = folder + "/run.mlw"
            subprocess.run([MALLOW, "record", "-q", "-o", run, "--", "/bin/true"], check=True)
            subprocess.run([MALLOW, "report", "--html", folder + "/page.html", run], check=True, capture_output=True)
            with open(folder + "/page.html", "rb") as f:
                page = f.read()
        policy = re.search(rb'Content-Security-Policy" content="([^"]*)"', page).group(1).decode()
        self.assertNotIn("unsafe", policy)
        self.assertIn("default-src 'none'", policy)
        for tag, directive in (("script", "script-src"), ("style", "style-src")):
            (inside,) = re.findall(rb"<%s>(.*?)</%s>" % (tag.encode(), tag.encode()), page, re.S)
            digest = base64.b64encode(hashlib.sha256(inside).digest()).decode()
            self.assertIn(f"{directive} 'sha256-{digest}'", policy)
        self.assertEqual(re.findall(rb"<[a-z]+[^>]* (?:style|on[a-z]+)=", page.split(b"<script>")[0]), [])
