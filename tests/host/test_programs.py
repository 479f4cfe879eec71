"""Real programs, and programs that cannot be recorded: output and exit status as without mallow."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from mallowtest import MALLOW, ORACLE, Case, run, victim

PYTHON = """
import json, hashlib, collections, re, sys
words = collections.Counter(re.findall(r'[a-z]+', 'the quick brown fox jumps over the lazy dog ' * 500))
print(words.most_common(3), hashlib.sha256(json.dumps(dict(words), sort_keys=True).encode()).hexdigest())
tree = [[i, [str(i)] * 5] for i in range(5000)]
sys.stderr.write('to stderr\\n')
sys.exit(42)
"""
C_SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n" + "".join(
    f"static int f{i}(int x) {{ for (int k = 0; k < x; k++) x ^= k * {i}; return x; }}\n"
    f"int g{i}(int x) {{ return f{i}(x) + printf(\"%d\", x); }}\n" for i in range(200))


def needs(name):
    if not shutil.which(name):
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} is not installed")
    return shutil.which(name)


class RealPrograms(Case):
    def calls_made(self, exe):
        """Mallocs seen in the images of that executable."""
        return sum(p["calls"].get("malloc", 0) for p in self.report()["processes"]
                   if os.path.basename(p["exe"]).startswith(exe))

    def test_python(self):
        self.untouched([sys.executable, "-c", PYTHON], env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"})
        self.assertGreater(self.calls_made("python3"), 20000)

    def test_git(self):
        git = needs("git")
        repo = os.path.join(self.folder, "repo")
        env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": self.folder,
               "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
               "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
               "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z", "GIT_PAGER": "cat"}
        self.assertEqual(run([git, "init", "-q", repo], env=env).rc, 0)
        for i in range(5):
            with open(os.path.join(repo, "file"), "a") as f:
                f.write(f"line {i}\n" * 50)
            run([git, "add", "."], env=env, cwd=repo)
            self.assertEqual(run([git, "commit", "-qm", f"change {i}"], env=env, cwd=repo).rc, 0)
        self.untouched([git, "log", "--stat", "-p"], env=env, cwd=repo)
        self.assertGreater(self.calls_made("git"), 100)
        self.untouched([git, "grep", "line 3"], env=env, cwd=repo)
        self.untouched([git, "nonsense"], env=env, cwd=repo)

    def test_gcc(self):
        gcc = needs("gcc")
        c = os.path.join(self.folder, "x.c")
        with open(c, "w") as f:
            f.write(C_SOURCE)
        self.untouched([gcc, "-O2", "-S", "-o", "-", c])
        self.assertGreater(self.calls_made("cc1"), 10000)
        self.untouched([gcc, "-c", "-o", os.path.join(self.folder, "x.o"), c])
        with open(c, "a") as f:
            f.write("int broken( {\n")
        self.untouched([gcc, "-O2", "-S", "-o", "-", c])

    def test_shell_pipelines(self):
        self.untouched(["/bin/sh", "-c", "seq 1 5000 | sort -rn | head -3; ls /nonexistent; exit 7"])
        if shutil.which("bash"):
            self.untouched(["bash", "-c", "for i in 1 2 3; do (sleep 0.$i; echo $i; exit $i) & done | sort; wait; "
                            "printf '%s\\n' {1..50} | grep -c 1; exec cat /etc/hostname"])

    def test_preload_of_its_own(self):
        """A start script sets LD_PRELOAD: its library is loaded, as it asked, and so is ours."""
        script = os.path.join(self.folder, "start")
        with open(script, "w") as f:
            f.write(f"export LD_PRELOAD={ORACLE}\nexec {victim('hello')}\n")
        counts = os.path.join(self.folder, "counts")
        os.mkdir(counts)
        self.untouched(["/bin/sh", script], env={"ORACLE_DIR": counts})
        self.assertGreater(self.calls_made("hello"), 0)
        self.assertEqual(len(os.listdir(counts)), 2, "the script's own library counted, alone and recorded")

    def test_perl(self):
        self.untouched([needs("perl"), "-e", "my %h; $h{$_ % 97} .= 'x' x 10 for 1..20000; "
                        "print scalar(keys %h), qq(\\n); fork or exec 'echo', 'child'; wait; exit 3"])

    def test_standard_input_goes_through(self):
        self.untouched(["sort"], stdin=b"b\na\nc\n" * 1000)

    def test_closed_standard_streams(self):
        shell = ["/bin/sh", "-c", "exec 0<&- 1>&- 2>&-; exec \"$@\"", "sh", victim("api"), "counts"]
        plain, r = run(shell), self.record(shell)
        self.assertEqual((r.out, r.rc), (plain.out, plain.status))

    def test_signals_reach_the_program(self):
        """SIGTERM and SIGINT sent to mallow end in the program; its status comes back."""
        script = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", "/bin/sh", "-c", script],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.terminate()
        out, err = p.communicate(timeout=600)
        self.assertEqual((out, p.returncode), (b"got\n", 9), err)


class NotRecordable(Case):
    """Said before the program runs, which it then does only when asked to."""

    def said(self, argv, words):
        plain = run(argv)
        r = self.record(argv)
        self.assertEqual((r.out, r.rc), (b"", 125), r.err)
        self.assertTrue(any(w in r.err for w in words), r.err)
        self.assertFalse(os.path.exists(self.file), "nothing was recorded")
        r = self.record(argv, options=["--force"])
        self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.status, plain.err), r.err)
        self.assertTrue(any(w in r.err for w in words), r.err)

    def test_static(self):
        self.said([victim("hello_static"), "there"], [b"static"])

    def test_setuid(self):
        if os.geteuid():
            self.skipTest("SKIPPED, LOUDLY: a setuid program needs root to make")
        where = tempfile.mkdtemp(prefix="mallow-suid-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, where, True)
        os.chmod(where, 0o755)
        copy = os.path.join(where, "hello_setuid")
        shutil.copy(victim("hello"), copy)
        os.chown(copy, 65534, 65534)
        os.chmod(copy, 0o4755)
        self.said([copy], [b"setuid"])

    def sanitized(self, kind):
        source, exe = os.path.join(self.folder, "x.c"), os.path.join(self.folder, "sanitized")
        with open(source, "w") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100; i++)\n"
                    "free(malloc(777)); puts(\"ran\"); return 9; }\n")
        if subprocess.run([needs("gcc"), "-fno-builtin", f"-fsanitize={kind}", source, "-o", exe],
                          capture_output=True).returncode:
            self.skipTest(f"SKIPPED, LOUDLY: gcc has no runtime for -fsanitize={kind} here")
        return exe

    def test_address_sanitizer(self):
        """Its runtime ends a program into which a library is preloaded: so it is not run, and the way out is said."""
        exe = self.sanitized("address")
        way_out = "ASAN_OPTIONS=verify_asan_link_order=0"
        for command in (["record", "-o", self.file], ["watch"]):
            r = run([MALLOW, *command, "--", exe])
            self.assertEqual((r.rc, r.out), (125, b""), r.err)
            self.assertIn(b"AddressSanitizer", r.err)
            self.assertIn(way_out.encode(), r.err)
        r = run([MALLOW, "doctor", exe])
        self.assertIn(b"cannot be recorded", r.out)
        self.assertIn(way_out.encode(), r.out)
        env = dict([way_out.split("=", 1)])
        self.untouched([exe], env=env)
        doc = self.report()
        self.assertEqual(sum(s["calls"] for s in doc["processes"][0]["sites"]
                             if s["allocated_bytes"] == 777 * s["calls"] > 0), 100)
        r = run([MALLOW, "watch", "--guard", "all", "--period", "1K", "--", exe], env=env)
        self.assertEqual((r.rc, r.out), (9, b"ran\n"), r.err)

    def test_other_sanitizers(self):
        """Recorded, with their malloc behind; no library that counts arenas goes into them."""
        for kind in ("thread", "leak", "undefined"):
            exe = self.sanitized(kind)
            self.untouched([exe])
            r = run([MALLOW, "watch", "--guard", "all", "--period", "1K", "--", exe])
            self.assertEqual((r.rc, r.out), (9, b"ran\n"), r.err)
            if kind != "undefined":
                r = run([MALLOW, "probe", "arenas", "--source", "preload", "--", exe])
                self.assertEqual((r.rc, r.out), (125, b""), r.err)
                self.assertIn(b"sanitizer", r.err)

    def test_own_malloc(self):
        """Said, and run: its mappings and its children can be recorded."""
        plain = run([victim("own_malloc")])
        r = self.record([victim("own_malloc")])
        self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.status, plain.err), r.err)
        self.assertIn(b"its own malloc inside the executable", r.err)
