"""`mallow watch --push --push-as pyroscope`: what arrives, in which order, and what becomes of it when the
server does not take it."""
import base64
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import unittest

from mallowtest import MALLOW, WATCH_LIBRARY, Test, wait_until
from collector import QUIET, SERVER, Collector, Profile, Pushing, accept, query

LEAK, SIZE, COUNT = "forgets_to_free", 2000, 500
TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]


@unittest.skipUnless(os.environ["PUSHES"], "this build has no libcurl")
class Base(Test):
    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def spooled(self):
        """The letters in the spool, in order."""
        spool = self.path("spool")
        names = sorted(os.listdir(spool)) if os.path.isdir(spool) else []
        return [name for name in names if re.fullmatch(r"\d{20}\.pyroscope", name)]

    def dead_port(self):
        """A port of this machine that refuses connections, as long as the socket is open."""
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        self.addCleanup(s.close)
        return s, s.getsockname()[1]

    def refused(self, *arguments, status=2):
        out = subprocess.run([MALLOW, "watch", *arguments, "--", "/bin/true"], capture_output=True, text=True,
                             env={**os.environ, **QUIET}, timeout=300, check=False)
        self.assertEqual(out.returncode, status, out.stderr)
        return out.stderr


class Arrives(Base):
    def test_profiles_of_a_program(self):
        with Collector() as server, Pushing(server.url + "/", "--label", "team=a.b", "--label", "hostname=here") as watch:
            wait_until(lambda: len(server.taken) >= 2, "two profiles")
            said = watch.end()
            pid = json.loads(watch.out.splitlines()[-1])["pid"]
            taken = server.taken
        self.assertRegex(said, r"--push: profiles: \d+ sent \(")
        self.assertEqual(len(taken), int(re.search(r"profiles: (\d+) sent", said).group(1)))
        profiles = [Profile(a["body"]) for a in taken]
        until_s = 0
        for asked, p in zip(taken, profiles):
            q = query(asked)
            self.assertTrue(asked["path"].startswith("/ingest?"), asked["path"])
            self.assertEqual((q["format"], q["spyName"]), ("pprof", "mallow"))
            name, labels = re.fullmatch(r"([^{]+)\{(.*)\}", q["name"]).groups()
            labels = dict(label.split("=") for label in labels.split(","))
            self.assertEqual((name, labels), ("server", {"hostname": "here", "pid": str(pid), "team": "a.b"}))
            self.assertLess(int(q["from"]), int(q["until"]))
            self.assertGreaterEqual(int(q["from"]), until_s - 1)
            until_s = int(q["until"])
            self.assertEqual(p.time_ns // 10**9, int(q["from"]))
            self.assertEqual(asked["headers"]["Content-Type"], "application/octet-stream")
            self.assertNotIn("Authorization", asked["headers"])
            self.assertEqual((p.types, p.default), (TYPES, "inuse_space"))
        # What was allocated is in one of them; what is in use is in each from then on.
        self.assertEqual(sum(p.total("alloc_objects", LEAK) for p in profiles), COUNT)
        self.assertEqual(sum(p.total("alloc_space", LEAK) for p in profiles), COUNT * SIZE)
        self.assertEqual({p.total("inuse_space", LEAK) for p in profiles[1:]}, {COUNT * SIZE})
        self.assertEqual([p.time_ns for p in profiles], sorted(p.time_ns for p in profiles))
        for before, after in zip(profiles, profiles[1:]):
            self.assertEqual(before.time_ns + before.duration_ns, after.time_ns)
        self.go_reads(taken[-1]["body"], profiles[-1])

    def go_reads(self, body, profile):
        if not shutil.which("go"):
            self.skipTest("no go: the profile was not read by go tool pprof")
        with open(self.path("p.pb.gz"), "wb") as f:
            f.write(body)
        raw = subprocess.run(["go", "tool", "pprof", "-raw", self.path("p.pb.gz")], capture_output=True, text=True, check=True,
                             timeout=300, env={**os.environ, "HOME": self.folder, "PPROF_TMPDIR": self.folder}).stdout
        self.assertIn("inuse_space/bytes[dflt]", raw)
        rows = re.findall(r"^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): ", raw, re.M)
        self.assertEqual([sum(int(r[i]) for r in rows) for i in range(4)], [profile.total(t) for t in TYPES])

    def test_a_process_that_ran_before(self):
        env = {**os.environ, "LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "1"}
        with subprocess.Popen([SERVER, "hold", str(COUNT), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as p:
            self.assertEqual(p.stdout.readline(), b"ready\n")
            with Collector() as server, Pushing(server.url, pid=p.pid, every="1000h", reports="100ms") as watch:
                # The last profile, when the process ends: it has only what the watch saw.
                wait_until(lambda: '"kind"' in watch.out, "the process is watched")
                p.stdin.close()
                watch.process.wait(300)
                profiles = [Profile(a["body"]) for a in server.taken]
        self.assertEqual([q.total("inuse_space", LEAK) for q in profiles], [COUNT * SIZE])
        self.assertEqual([q.total("alloc_space", LEAK) for q in profiles], [0])

    def test_what_is_too_large_is_split(self):
        with Collector() as server, Pushing(server.url, every="1000h") as watch:
            watch.end()
            [whole] = [Profile(a["body"]) for a in server.taken]
        most = len(whole.bytes) - 20  # times have more or fewer bytes
        with Collector() as server, Pushing(server.url, "--push-size", str(most), every="1000h") as watch:
            watch.end()
            profiles = [Profile(a["body"]) for a in server.taken]
        self.assertGreater(len(profiles), 1)
        self.assertEqual(len({query(a)["name"] + query(a)["from"] for a in server.taken}), 1)
        for name in TYPES:
            self.assertEqual(sum(p.total(name) for p in profiles), whole.total(name))
        self.assertTrue(all(len(p.bytes) <= most for p in profiles), [len(p.bytes) for p in profiles])
        with Collector() as server, Pushing(server.url, "--push-size", "1", every="1000h") as watch:
            self.assertRegex(watch.end(), r"0 sent \(0 B\); \d+ larger than --push-size with one stack")

    def test_https(self):
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x",
                               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.path("key"), "-out", self.path("ca")],
                              capture_output=True, check=False) if shutil.which("openssl") else None
        if not made or made.returncode:
            self.skipTest("no openssl that makes certificates: https was not tried")
        with open(self.path("both"), "w", encoding="ascii") as f:
            for name in ("key", "ca"):
                with open(self.path(name), encoding="ascii") as g:
                    f.write(g.read())
        with Collector(certificate=self.path("both")) as server:
            with Pushing(server.url, "--ca", self.path("ca"), every="1000h") as watch:
                self.assertIn("1 sent", watch.end())
            with Pushing(server.url) as watch:
                watch.says("--ca FILE names the certificates to trust")
                self.assertIn("0 sent", watch.end())
            self.assertEqual(len(server.taken), 1)

    def test_nothing_of_it_without_being_asked(self):
        with subprocess.Popen([MALLOW, "watch", "--json", "--", SERVER, "hold", "1", "wait"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            self.assertEqual(p.stdout.readline(), b"ready\n")
            with open(f"/proc/{p.pid}/maps", encoding="ascii") as f:
                self.assertNotIn("libcurl", f.read())
            self.assertEqual(len(os.listdir(f"/proc/{p.pid}/task")), 1)
            p.stdin.close()
            p.stdout.read()


class Tokens(Base):
    def test_a_bearer_that_changes(self):
        token = self.write("token", "s3cret\nignored")
        with Collector() as server, Pushing(server.url, "--push-token-file", token) as watch:
            wait_until(lambda: server.taken, "a profile")
            for name in ("cmdline", "environ"):
                with open(f"/proc/{watch.process.pid}/{name}", "rb") as f:
                    self.assertNotIn(b"s3cret", f.read())
            os.rename(self.write("new", "an0ther"), token)
            wait_until(lambda: server.taken[-1]["headers"]["Authorization"] == "Bearer an0ther", "the new token")
            os.chmod(token, 0o644)
            watch.says("can be read or changed by other users")
            os.chmod(token, 0o600)
            said = watch.end()
            self.assertEqual(server.taken[0]["headers"]["Authorization"], "Bearer s3cret")
        self.assertNotIn("s3cret", said + watch.out)
        self.assertNotIn("an0ther", said + watch.out)

    def test_a_user(self):
        with Collector() as server:
            url = server.url.replace("//", "//me@") + "/below/it/"
            with Pushing(url, "--token-file", self.write("token", "s3cret"), every="1000h") as watch:
                self.assertIn("1 sent", watch.end())
            self.assertEqual(server.taken[0]["headers"]["Authorization"], "Basic " + base64.b64encode(b"me:s3cret").decode())
            self.assertTrue(server.taken[0]["path"].startswith("/below/it/ingest?"))

    def test_files_that_are_none(self):
        for name, text, mode in (("open", "s3cret", 0o644), ("empty", "", 0o600), ("control", "s3cret\x1b[m", 0o600)):
            file = self.write(name, text, mode)
            said = self.refused("--push", "http://127.0.0.1:9", "--token-file", file, status=2 if mode == 0o600 else 125)
            self.assertIn("the token file", said)
            self.assertNotIn("s3cret", said)
        self.refused("--push", "http://127.0.0.1:9", "--token-file", self.path("none"), status=125)

    def test_a_server_that_does_not_know_it(self):
        answers = {"now": (401, {}, b"who are you?\n")}
        with Collector(lambda n, a: answers["now"]) as server, Pushing(server.url, "--spool", self.path("spool")) as watch:
            watch.says("answers 401: who are you?; it is tried again")
            answers["now"] = (200, {}, b"")
            wait_until(lambda: len(server.taken) >= 2, "it is tried again")
            watch.says("accepts profiles again")
            self.assertNotIn("dropped", watch.end())


class Fails(Base):
    def in_order(self, letters):
        times = [Profile(a["body"]).time_ns for a in letters]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(set(times)), len(times))

    def test_a_server_that_is_down(self):
        holder, port = self.dead_port()
        with Pushing(f"http://127.0.0.1:{port}", "--spool", self.path("spool")) as watch:
            watch.says("it is tried again")
            wait_until(lambda: len(self.spooled()) >= 3, "letters in the spool")
            watch.process.send_signal(signal.SIGHUP)  # the watch itself goes on
            wait_until(lambda: '"kind":"all"' in watch.out.replace(" ", ""), "a report")
            before = len(self.spooled())
            holder.close()
            with Collector(port=port) as server:
                wait_until(lambda: len(server.taken) > before, "all are sent")
                said = watch.end()
                self.in_order(server.taken)
                profiles = [Profile(a["body"]) for a in server.taken]
                self.assertEqual(sum(p.total("alloc_space", LEAK) for p in profiles), COUNT * SIZE)
        self.assertNotRegex(said, "dropped|lost|refused")
        self.assertEqual(self.spooled(), [])

    def test_errors_that_pass(self):
        answers = [(500, {}, b"no \x1b[31mroom"), (503, {}, b""), (None, {}, b"")]
        with Collector(lambda n, a: answers[n - 1] if n <= 3 else accept(n, a)) as server, Pushing(server.url) as watch:
            wait_until(lambda: len(server.taken) >= 2, "two profiles")
            said = watch.end()
            asked, taken = server.asked, server.taken
        self.assertEqual([a["body"] == asked[0]["body"] for a in asked[:4]], [True] * 4)
        self.in_order(taken)
        self.assertIn("answers 500: no ?[31mroom; it is tried again", said)
        self.assertNotRegex(said, "dropped|lost|refused")

    def test_retry_after(self):
        def answer(n, asked):
            return (429, {"Retry-After": "3"}, b"") if n == 1 else accept(n, asked)
        with Collector(answer) as server, Pushing(server.url) as watch:
            wait_until(lambda: server.taken, "a profile")
            asked = server.asked
            watch.end()
        self.assertGreaterEqual(asked[1]["time"] - asked[0]["time"], 3)

    def test_a_server_that_does_not_answer(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(n, asked):
            release.wait(300)
            return accept(n, asked)
        with Collector(answer) as server, Pushing(server.url, "--spool", self.path("spool")) as watch:
            wait_until(lambda: server.asked and len(self.spooled()) >= 3, "profiles are made while a request hangs")
            watch.process.send_signal(signal.SIGHUP)
            wait_until(lambda: '"kind":"all"' in watch.out.replace(" ", ""), "a report")
            said = watch.end()
            self.assertEqual(len(server.asked), 1)
            release.set()
        self.assertRegex(said, r"0 sent \(0 B\); \d+ in the spool, for the next watch")
        self.assertGreaterEqual(len(self.spooled()), 3)

    def test_redirections_are_not_followed(self):
        with Collector() as other, Collector(lambda n, a: (307, {"Location": other.url + "/ingest"}, b"")) as server:
            with Pushing(server.url, "--token-file", self.write("token", "s3cret"), every="1000h") as watch:
                said = watch.end()
            self.assertTrue(server.asked)
            self.assertEqual(other.asked, [])
        self.assertIn("redirections are not followed", said)
        self.assertIn("1 lost, because the server did not take them", said)

    def test_what_is_refused_for_itself(self):
        def answer(n, asked):
            return (413, {}, b"too large") if n == 1 else accept(n, asked)
        with Collector(answer) as server, Pushing(server.url) as watch:
            wait_until(lambda: server.taken, "the next one")
            self.assertEqual(len({a["path"] + str(a["body"]) for a in server.asked}), len(server.asked))
            said = watch.end()
        self.assertIn("answers 413: too large; it is not sent again", said)
        self.assertIn("; 1 refused by the server", said)


class Spool(Base):
    def test_a_watch_that_was_killed(self):
        holder, port = self.dead_port()
        url, spool = f"http://127.0.0.1:{port}", self.path("spool")
        with Pushing(url, "--spool", spool) as watch:
            wait_until(lambda: len(self.spooled()) >= 3, "letters in the spool")
            watch.kill()
        left = self.spooled()
        self.assertEqual(stat.S_IMODE(os.stat(spool).st_mode), 0o700)
        self.write("spool/notes", "of somebody else")
        # What a kill in the middle of writing leaves on a file system without files that have no name.
        self.write("spool/00000000000000000099.pyroscope.part-0123456789abcdef", "mallow push 1\n")
        with open(os.path.join(spool, left[1]), "r+b") as f:
            f.truncate(200)
        holder.close()
        with Collector(port=port) as server, Pushing(url, "--spool", spool, every="1000h") as watch:
            wait_until(lambda: len(server.taken) >= len(left) - 1, "what was left")
            said = watch.end()
            times = [Profile(a["body"]).time_ns for a in server.taken]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(times), len(left))  # without the damaged one, with the last one of the second watch
        self.assertIn("; 1 damaged in the spool", said)
        self.assertEqual(os.listdir(spool), ["notes"])

    def test_a_letter_that_no_request_can_be_made_of(self):
        """Its target is no part of a URL; what waits behind it is sent."""
        holder, port = self.dead_port()
        spool = self.path("spool")
        with Pushing(f"http://127.0.0.1:{port}", "--spool", spool) as watch:
            wait_until(lambda: len(self.spooled()) >= 2, "letters in the spool")
            watch.kill()
        left = self.spooled()
        path = os.path.join(spool, left[0])
        with open(path, "rb") as f:
            letter = f.read()
        with open(path, "wb") as f:
            f.write(letter.replace(b"\nto ", b"\nto a b", 1))
        holder.close()
        with Collector(port=port) as server, Pushing(f"http://127.0.0.1:{port}", "--spool", spool, every="1000h") as watch:
            wait_until(lambda: len(server.taken) >= len(left) - 1, "what was left")
            said = watch.end()
        self.assertIn("; 1 damaged in the spool", said)
        self.assertEqual(self.spooled(), [])

    def test_the_oldest_gives_way(self):
        _, port = self.dead_port()
        spool = self.path("spool")
        sizes = []

        def full():
            sizes.append(len(self.spooled()))
            return sizes[-1] == 2 and int(self.spooled()[0].split(".")[0]) > 2
        with Pushing(f"http://127.0.0.1:{port}", "--spool", spool, "--spool-size", "8K") as watch:
            wait_until(full, "the spool is full")
            said = watch.end()
        self.assertLessEqual(max(sizes), 2)
        dropped = int(re.search(r"; (\d+) dropped, because the spool was full", said).group(1))
        self.assertIn("; 2 in the spool", said)
        last = [int(name.split(".")[0]) for name in self.spooled()]
        self.assertEqual(last, [dropped + 1, dropped + 2])

    def test_in_memory(self):
        _, port = self.dead_port()
        with Pushing(f"http://127.0.0.1:{port}", "--spool-size", "8K") as watch:
            watch.says("it is tried again")
            self.assertRegex(watch.end(), r"profiles: 0 sent.* [12] lost, because the server did not take them")

    def test_spools_that_are_none(self):
        url = "http://127.0.0.1:9"
        os.mkdir(self.path("shared"))
        os.chmod(self.path("shared"), 0o777)
        self.assertIn("other users can write", self.refused("--push", url, "--spool", self.path("shared"), status=125))
        os.mkdir(self.path("other"))
        self.write("other/00000000000000000007.otlp", "x")
        self.assertIn("holds profiles for otlp", self.refused("--push", url, "--spool", self.path("other"), status=125))
        self.write("file", "")
        self.refused("--push", url, "--spool", self.path("file"), status=125)
        self.refused("--push", url, "--spool", self.path("a/b"), status=125)
        _, port = self.dead_port()
        with Pushing(f"http://127.0.0.1:{port}", "--spool", self.path("spool")) as watch:
            wait_until(self.spooled, "the spool is used")
            self.assertIn("in use by another", self.refused("--push", url, "--spool", self.path("spool"), status=125))
            watch.end()


class Words(Base):
    def test_urls(self):
        for url, why in (("http://example.org:4040", "use https://"), ("http://127.0.0.1.example.org", "https://"),
                         ("http://[::2]:4040", "https://"), ("ftp://127.0.0.1", "not supported"),
                         ("http://me:s3cret@127.0.0.1", "--push-token-file"), ("http://127.0.0.1/?a=s3cret", "query"),
                         ("http://127.0.0.1/#s3cret", "query"), ("http://", "not a URL"), ("http://a b", "not a URL")):
            said = self.refused("--push", url)
            self.assertIn(why, said)
            self.assertNotIn("s3cret", said)

    def test_labels(self):
        for label in ("a", "=b", "1a=b", "__a=b", "a-b=c", "a=", "a=b,c", "a=b c", "a={", "a=\x1b", "a=\u00e4", "a=" + "x" * 2000):
            self.assertIn("--label", self.refused("--push", "http://127.0.0.1:9", "--label", label), label)
        self.assertIn("twice", self.refused("--push", "http://127.0.0.1:9", "--label", "a=b", "--label", "a=c"))
        many = [word for i in range(25) for word in ("--label", f"a{i}=b")]
        self.assertIn("24 labels at most", self.refused("--push", "http://127.0.0.1:9", *many))

    def test_options_of_a_push_without_one(self):
        for words in (("--push-as", "pyroscope"), ("--push-every", "1s"), ("--push-size", "1M"), ("--label", "a=b"),
                      ("--push-token-file", "x"), ("--ca", "x"), ("--spool", "x"), ("--spool-size", "1M")):
            self.assertIn("needs --push", self.refused(*words))

    def test_the_service_s_name(self):
        with Collector() as server, Pushing(server.url, "--label", "service_name=shop", every="1000h", env={"HOSTNAME": "x"}) as w:
            w.end()
            self.assertTrue(query(server.taken[0])["name"].startswith("shop{hostname="), server.taken[0]["path"])
            self.assertNotIn("service_name", server.taken[0]["path"])


class Metrics(Base):
    def read(self):
        with open(self.path("m.prom"), encoding="ascii") as f:
            return f.read()

    def test_the_file(self):
        with subprocess.Popen([MALLOW, "watch", "--json", "--period", "1", "--metrics-file", self.path("m.prom"), "--", SERVER,
                               "hold", str(COUNT), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            wait_until(lambda: os.path.exists(self.path("m.prom")) and "{pid=" in self.read(), "the process is in the file")
            self.assertEqual(stat.S_IMODE(os.stat(self.path("m.prom")).st_mode), 0o644)
            text = self.read()
            self.assertEqual(os.listdir(self.folder), ["m.prom"])
            p.stdin.close()
            p.stdout.read()
        self.assertEqual(os.listdir(self.folder), [])
        self.assertRegex(text, r'(?m)^mallow_heap_live_bytes\{pid="\d+",program="server"\} \d+$')
        self.assertIn("# TYPE mallow_allocated_bytes_total counter\n", text)
        if not shutil.which("promtool"):
            self.skipTest("no promtool: the text format was not checked by it")
        check = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=300, check=False)
        self.assertEqual((check.returncode, check.stdout + check.stderr), (0, b""))

    def test_a_file_that_cannot_be(self):
        for name in ("none/m.prom", "", "."):
            self.assertIn("--metrics-file", self.refused("--metrics-file", self.path(name), status=125))
