"""`mallow probe` where something is missing: each kind works, or says in one line what it lacks. A mount namespace hides
what the kernel offers; setpriv takes all capabilities but two away."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW
from probing import CAT, for_others, main, mallow, reads, victim

NO_TRACEFS = ["mount -t tmpfs none /sys/kernel/tracing"]
NO_TYPES = ["mount -t tmpfs none /sys/kernel/btf"]
BUT_TWO = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "+bpf,+perfmon",
           "--ambient-caps", "+bpf,+perfmon"]


def kinds():
    return mallow("probe", "frobnicate").stderr.split("; one of ")[1].strip().split(", ")


class Lacking(unittest.TestCase):
    def run_as(self, before, kind, program="/bin/true"):
        return subprocess.run([*before, MALLOW, "probe", kind, "--json", "--", program], capture_output=True, text=True,
                              check=False, timeout=600, stdin=subprocess.DEVNULL)

    def without(self, hides, kind, program="/bin/true"):
        out = self.run_as(["unshare", "-m", "sh", "-c", " && ".join(hides) + ' && exec "$@"', "sh"], kind, program)
        if "unshare:" in out.stderr or "mount:" in out.stderr:
            self.skipTest(f"SKIPPED, LOUDLY: no mount namespace here: {out.stderr.strip()}")
        return out

    def document(self, out, kind):
        self.assertEqual(out.returncode, 0, f"{kind}: {out.stderr}")
        self.assertLessEqual(out.stderr.count("\n"), 1, f"{kind}: {out.stderr}")
        document = json.loads(out.stdout)
        self.assertEqual((document["probe"], document["lost"]), (kind, 0))
        self.assertTrue(document["source"])
        return document

    def test_without_tracefs_all_work(self):
        for kind in kinds():
            self.document(self.without(NO_TRACEFS, kind), kind)

    def test_without_the_kernels_types(self):
        for kind in kinds():
            out = self.without(NO_TYPES + NO_TRACEFS, kind)
            if kind == "arenas":  # seen from inside the program
                self.assertIn("libmallow-arenas.so", self.document(out, kind)["source"])
                self.assertIn("CONFIG_DEBUG_INFO_BTF", out.stderr)
                continue
            self.assertEqual((out.returncode, out.stdout), (125, ""), kind)
            self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
            self.assertIn("/sys/kernel/btf/vmlinux): use a kernel built with CONFIG_DEBUG_INFO_BTF", out.stderr)

    def test_with_two_capabilities_all_work(self):
        """And count what root counts."""
        if not shutil.which("setpriv"):
            self.skipTest("SKIPPED, LOUDLY: no setpriv (util-linux)")
        for_others(self)
        if self.run_as(BUT_TWO, "sizes").returncode in (1, 126, 127):
            self.skipTest("SKIPPED, LOUDLY: setpriv cannot give CAP_BPF and CAP_PERFMON here")
        checks = {c["name"]: c for c in json.loads(mallow("doctor", "--json").stdout)["checks"]}
        for kind in kinds():
            out = self.run_as(BUT_TWO, kind, victim("arenas_family"))
            if checks["probe-many"]["status"] != "ok" and kind in ("sizes", "calls", "arenas"):
                continue  # by perf events it takes root, which it says: tests/probe/test_usage.py
            # The victim writes a line of its own.
            out.stdout = out.stdout[out.stdout.index("{"):]
            document = self.document(out, kind)
            if kind == "sizes":
                root = self.run_as([], kind, victim("arenas_family"))
                expected = json.loads(root.stdout[root.stdout.index("{"):])
                self.assertEqual((document["calls"], document["bytes"]), (expected["calls"], expected["bytes"]))
                self.assertGreater(document["calls"], 400)

    # What `mallow doctor` says of recordings, and what they then do.

    def doctor(self, before):
        out = subprocess.run([*before, MALLOW, "doctor", "--json"], capture_output=True, text=True, check=False,
                             timeout=600, stdin=subprocess.DEVNULL)
        if "unshare:" in out.stderr or "mount:" in out.stderr or not out.stdout:
            self.skipTest(f"SKIPPED, LOUDLY: cannot take it away here: {out.stderr.strip()}")
        checks = {c["name"]: c for c in json.loads(out.stdout)["checks"]}
        return checks["record-with"], checks["record-p"]

    def agree(self):
        """The doctor's view of streams, which is what recordings with each of them say."""
        streams, _ = self.doctor([])
        self.assertIn("faults", streams["detail"].split(", "))
        works = streams["detail"].split(", ")
        for kind in ("faults", "rss", "arenas", "swapin", "reclaim"):
            with tempfile.TemporaryDirectory() as folder:
                out = mallow("record", "--with", kind, "-o", os.path.join(folder, "out.mlw"), "--", "/bin/true")
            self.assertEqual(out.returncode == 0, kind in works, f"{kind}: {streams} {out.stderr}")
            # What it says of itself when it is recorded, the doctor says.
            less = "because" in out.stderr or "is configured" in out.stderr or out.returncode
            self.assertEqual(bool(less), f"{kind}: " in streams["why"], f"{kind}: {streams} {out.stderr}")
        return streams

    def test_doctor_tells_which_recordings_work(self):
        _, attaching = self.doctor([])
        self.assertEqual((attaching["status"], attaching["why"]), ("ok", ""))
        for turn in range(10):  # others of this machine, tests among them, add swap to it meanwhile and take it away
            try:
                streams = self.agree()
                break
            except AssertionError:
                if turn == 9:
                    raise
        self.assertEqual(streams["status"] == "ok", streams["why"] == "")
        self.assertEqual(streams["status"] == "ok", streams["remedy"] == "")

    def test_doctor_without_the_kernels_types(self):
        checks = self.doctor(["unshare", "-m", "sh", "-c", " && ".join(NO_TYPES) + ' && exec "$@"', "sh"])
        self.assertEqual([c["status"] for c in checks], ["missing", "limited"])
        for check in checks:
            self.assertIn("CONFIG_DEBUG_INFO_BTF", check["why"])

    def test_doctor_without_rights(self):
        if not shutil.which("setpriv"):
            self.skipTest("SKIPPED, LOUDLY: no setpriv (util-linux)")
        for_others(self)
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        checks = self.doctor(nobody)
        self.assertEqual([c["status"] for c in checks], ["missing", "limited"])
        self.assertIn("a process of this user that runs already can be recorded, by the library", checks[1]["detail"])
        waits = subprocess.Popen([*nobody, CAT], stdin=subprocess.PIPE)
        try:
            reads(waits)  # until then it is setpriv, and may be root's yet
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)
                for how, status in ("inject", 0), ("probe", 1):
                    out = subprocess.run([*nobody, MALLOW, "record", "--how", how, "-d", "1s", "-o", os.path.join(folder, how),
                                          "-p", str(waits.pid)], capture_output=True, text=True, check=False, timeout=600)
                    self.assertEqual(out.returncode, status, out.stderr)
        finally:
            waits.kill()
            waits.communicate()
        for check in checks:
            self.assertIn("CAP_BPF and CAP_PERFMON", check["why"])
            self.assertIn("setcap cap_bpf,cap_perfmon", check["remedy"])
            self.assertIn(f"+ep '{os.path.realpath(MALLOW)}'", check["remedy"])


if __name__ == "__main__":
    main()
