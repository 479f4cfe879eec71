"""`mallow push --segments` and `mallow pull`: what arrives is the recording, bit for bit, whatever was killed on the
way; nothing is removed before it is known to be there; what a server says is not believed."""
import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

from mallowtest import LONG, MALLOW, main, wait_until
from store import Store

KILLS = 20 if LONG else 5
SIZE = 64 << 10
ENV = {**os.environ, "no_proxy": "*", "HOME": "/nonexistent", "PYTHONMALLOC": "malloc"}
ENV.pop("http_proxy", None)


def mallow(*arguments, **more):
    return subprocess.run([MALLOW, *arguments], env=ENV, capture_output=True, text=True, check=False, **more)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.raw = os.path.join(cls.home, "raw.mlw")
        cls.other = os.path.join(cls.home, "other.mlw")
        out = mallow("record", "-q", "--keep-raw", "-o", cls.raw, "--", sys.executable, "-c",
                     "kept = [str(i) for i in range(60000)]")
        assert out.returncode == 0, out.stderr
        mallow("record", "-q", "-o", cls.other, "--", "true")
        with open(cls.raw, "rb") as f:
            cls.data = f.read()
        assert len(cls.data) > 12 * SIZE, len(cls.data)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.home)
        self.file = shutil.copy(self.raw, os.path.join(self.folder, "a run.mlw"))
        self.back = os.path.join(self.folder, "back.mlw")
        self.store = Store()
        self.addCleanup(lambda: self.store.close())
        self.below = "/runs/a%20run.mlw/"
        self.url = self.store.url + self.below[:-1]

    def push(self, *more, status=0, file=None, to=None):
        out = mallow("push", "--segments", "--segment-size", str(SIZE), file or self.file, "--to",
                     to or self.store.url + "/runs/", *more)
        self.assertEqual(out.returncode, status, out.stderr)
        self.assertEqual(status == 0, out.stdout != "" or "-q" in more)
        return out

    def pull(self, *more, status=0, url=None):
        out = mallow("pull", url or self.url, "-o", self.back, *more)
        self.assertEqual(out.returncode, status, out.stderr)
        return out

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def fails_to_pull(self, *more):
        with open(self.back, "wb") as f:
            f.write(b"what was there")
        said = self.pull("--retry=0", *more, status=1).stderr
        self.assertEqual(self.read(self.back), b"what was there")
        self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a run.mlw", "back.mlw"])
        return said


class Sent(Case):
    def test_bit_for_bit(self):
        said = json.loads(self.push("--json").stdout)
        count = -(-len(self.data) // SIZE)
        self.assertGreater(said.pop("duration_ns"), 0)
        self.assertEqual(said, {"schema": 1, "mallow": said["mallow"], "file": self.file, "url": self.url + "/", "bytes": len(self.data),
                                "segments": count, "sent_bytes": len(self.data), "sent_segments": count,
                                "checked": True, "removed": False})
        self.assertEqual(b"".join(b for _, b in sorted(self.store.segments(self.below).items())), self.data)
        self.assertEqual([p for m, p in self.store.asked if m == "PUT"][-1], self.below + "manifest.sha256")
        said = json.loads(self.pull("--json").stdout)
        self.assertEqual((said["bytes"], said["segments"], said["complete"]), (len(self.data), count, True))
        self.assertEqual(self.read(self.back), self.data)

    def test_what_anybody_can_check(self):
        self.push("-q")
        for path, body in self.store.objects.items():
            with open(os.path.join(self.folder, os.path.basename(path)), "wb") as f:
                f.write(body)
        subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "manifest.sha256"], cwd=self.folder, check=True)

    def test_the_report_of_what_came_back_is_the_same(self):
        self.push("-q")
        self.pull("-q")
        texts = []
        for path in (self.file, self.back):
            found = json.loads(mallow("report", "--json", path).stdout)
            found.pop("file", None)
            texts.append(json.dumps(found["processes"], sort_keys=True))
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(self.read(self.file), self.read(self.back))  # sealed by now, both

    def test_sealed(self):
        mallow("report", self.file)
        self.push("-q")
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.read(self.file))
        self.assertEqual(self.read(self.back)[:4], b"MLS1")

    def test_again_sends_nothing(self):
        self.push("-q")
        said = json.loads(self.push("--json").stdout)
        self.assertEqual((said["sent_segments"], said["checked"]), (0, True))

    def test_what_the_server_lost_is_sent_again(self):
        self.push("-q")
        del self.store.objects[self.below + "00000003.seg"]
        self.store.objects[self.below + "00000005.seg"] = b"short"
        said = json.loads(self.push("--json").stdout)
        self.assertEqual(said["sent_segments"], 2)
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def test_a_recording_that_grew(self):
        with open(self.file, "wb") as f:
            f.write(self.data[:5 * SIZE + 77])
        self.push("-q")
        shutil.copy(self.raw, self.file)
        said = json.loads(self.push("--json").stdout)
        self.assertEqual(said["sent_segments"], said["segments"] - 5)
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)
        with open(self.file, "wb") as f:
            f.write(self.data[:5 * SIZE])
        self.assertIn("has more of this recording", self.push(status=1).stderr)

    def test_another_recording_is_not_mixed_in(self):
        self.push("-q")
        before = dict(self.store.objects)
        said = self.push(status=1, file=self.other, to=self.url).stderr
        self.assertIn("another recording", said)
        self.assertIn("--replace", said)
        self.assertEqual(self.store.objects, before)
        self.push("-q", "--replace", file=self.other, to=self.url)
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.read(self.other))

    def test_of_two_tries_at_once_the_beginning_of_another_counts_too(self):
        self.push("-q")
        del self.store.objects[self.below + "manifest.sha256"]
        self.assertIn("some segments of another", self.push(status=1, file=self.other, to=self.url).stderr)

    def test_secrets_stay_out(self):
        secrets = os.path.join(self.folder, "secrets")
        with open(secrets, "w", encoding="ascii") as f:
            f.write("X-Key: s3cret\n")
        self.store.fault = lambda handler, path, body: path.endswith("1.seg") and (handler.answer(403, b"no") or True)
        said = self.push("--header", "@" + secrets, status=1, to=f"http://me:s3cret@127.0.0.1:{self.store.port}"
                         "/runs/?signature=s3cret").stderr
        self.assertNotIn("s3cret", said)
        self.assertIn("PUT " + self.url + "/00000001.seg answers 403: no", said)
        self.assertTrue(all(h["X-Key"] == "s3cret" and h["Authorization"] for h in self.store.headers))

    def test_usage(self):
        for arguments, said in ((["--s3", "x"], "--segments"), (["--remove"], "--segments"),
                                (["--segments", "--method=post"], "--segments"),
                                (["--segments", "--segment-size=1K"], "64"), (["--segments", "--region=x"], "--s3")):
            out = mallow("push", self.file, "--to", self.store.url + "/x/", *arguments)
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn(said, out.stderr)
        out = mallow("push", "--segments", __file__, "--to", self.store.url + "/x/")
        self.assertEqual(out.returncode, 2)
        self.assertIn("not a recording", out.stderr)
        self.assertEqual(mallow("pull", self.url).returncode, 2)
        self.assertEqual(mallow("pull", "ftp://127.0.0.1/x", "-o", self.back).returncode, 2)
        self.assertEqual(self.store.asked, [])


class Removed(Case):
    def test_after_all_is_there(self):
        self.push("-q", "--remove")
        self.assertFalse(os.path.exists(self.file))
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def stays(self, fault, said):
        self.store.fault = fault
        self.assertIn(said, self.push("--remove", "--retry=0", status=1).stderr)
        self.assertEqual(self.read(self.file), self.data)

    def test_not_where_the_server_forgets(self):
        self.stays(lambda h, path, body: h.command == "PUT" and path.endswith("2.seg") and (h.answer(201) or True),
                   "has no object of its size")

    def test_not_where_the_server_keeps_less(self):
        def fault(handler, path, body):
            if handler.command != "PUT" or not path.endswith("2.seg"):
                return False
            self.store.objects[path] = body[:-1]
            handler.answer(201)
            return True
        self.stays(fault, "has no object of its size")

    def test_not_where_the_server_does_not_say(self):
        self.stays(lambda h, path, body: h.command == "HEAD" and (h.answer(405) or True), "does not say whether")
        self.assertFalse(json.loads(self.push("--json").stdout)["checked"])  # without --remove that is enough

    def test_not_when_it_is_refused(self):
        for status in (401, 413, 507):
            self.stays(lambda h, path, body, status=status: h.command == "PUT" and (h.answer(status) or True),
                       f"answers {status}")


class Secure(Case):
    @unittest.skipUnless(shutil.which("openssl"), "SKIPPED, LOUDLY: openssl is not installed")
    def test_certificates(self):
        """A server whose certificate nobody vouches for gets nothing, and the recording stays."""
        files = {}
        for name in ("right", "wrong"):
            key, files[name] = (os.path.join(self.home, name + suffix) for suffix in (".key", ".pem"))
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", files[name],
                            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                           check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files["right"], os.path.join(self.home, "right.key"))
        self.store.server.socket = context.wrap_socket(self.store.server.socket, server_side=True)
        to = f"https://127.0.0.1:{self.store.port}/runs/"
        for more in ([], ["--ca", files["wrong"]]):
            self.assertIn("--ca FILE names the certificates", self.push("--remove", "--retry=0", *more, to=to, status=1).stderr)
            self.assertEqual(self.read(self.file), self.data)
        self.assertEqual(self.store.objects, {})
        self.push("-q", "--remove", "--ca", files["right"], to=to)
        self.assertFalse(os.path.exists(self.file))
        self.pull("-q", "--ca", files["right"], url=to + "a%20run.mlw")
        self.assertEqual(self.read(self.back), self.data)

    def test_nothing_unasked(self):
        """Without a URL, no command opens a socket to a network."""
        if not shutil.which("strace"):
            self.skipTest("SKIPPED, LOUDLY: strace is not installed")
        log = os.path.join(self.home, "calls")
        store = os.path.join(self.home, "fleet.sqlite")
        for command in (["record", "-q", "-o", self.file, "--", "true"], ["report", self.file], ["watch", "--", "true"],
                        ["fleet", "init", "--store", store], ["fleet", "load", "--store", store, self.file],
                        ["fleet", "report", "--store", store]):
            out = subprocess.run(["strace", "-f", "-qq", "-e", "trace=socket,connect,bind,clone,execve", "-o", log, MALLOW, *command],
                                 env=ENV, capture_output=True, text=True, check=False)
            self.assertEqual(out.returncode, 0, out.stderr)
            calls = self.read(log).decode(errors="replace")
            self.assertIn("execve(", calls, "nothing was traced")
            self.assertNotIn("AF_INET", calls)


class Interrupted(Case):
    def test_what_passes_is_tried_again(self):
        left = [3]

        def fault(handler, path, body):
            if not path.endswith("1.seg") or not left[0]:
                return False
            left[0] -= 1
            if left[0] == 1:
                handler.close_connection = True  # without an answer
            else:
                handler.answer(503, b"busy")
            return True

        self.store.fault = fault
        out = self.push("-q", "--retry=3")
        self.assertEqual(left, [0])
        self.assertEqual(out.stderr, "")
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def test_the_uploader_killed_at_any_request(self):
        """Before its answer, in it, or behind it; then once to its end."""
        rng = random.Random(7)
        count, sent = -(-len(self.data) // SIZE), 0
        for _ in range(KILLS):
            left, when, process = [rng.randrange(1, count)], rng.choice("bai"), []
            started = threading.Event()

            def fault(handler, path, body, left=left, when=when, process=process, started=started):
                left[0] -= handler.command == "PUT"
                if handler.command != "PUT" or left[0]:
                    return False
                started.wait()
                if when == "a":
                    self.store.objects[path] = body
                if when == "i":
                    self.store.objects[path] = body
                    handler.wfile.write(b"HTTP/1.1 201 Cre")
                process[0].kill()
                handler.close_connection = True
                return True

            self.store.fault = fault
            p = subprocess.Popen([MALLOW, "push", "-q", "--segments", "--segment-size", str(SIZE), self.file, "--to",
                                  self.store.url + "/runs/"], env=ENV)
            process.append(p)
            started.set()
            p.wait()
            self.assertIn(p.returncode, (0, -9))
            self.store.fault = None
            progress = self.store.objects.get(self.below + "progress.sha256", b"")
            for line in progress.decode().splitlines():  # never says more than there is
                if not line.startswith("#"):
                    total, name = line.split("  ")
                    self.assertEqual(hashlib.sha256(self.store.objects[self.below + name]).hexdigest(), total)
            self.assertEqual(self.read(self.file), self.data)
        sent = json.loads(self.push("--json", "--remove").stdout)["sent_segments"]
        self.assertLessEqual(sent, count)
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def test_the_server_killed_and_started_again(self):
        reached = threading.Event()
        seen = []

        def fault(handler, path, body):
            if path.endswith("4.seg"):
                seen.append(path)
                if len(seen) == 2:  # libcurl itself tries once more when a connection that it kept is gone
                    reached.set()
                handler.close_connection = True
                return True
            return False

        self.store.fault = fault
        p = subprocess.Popen([MALLOW, "push", "--segments", "--segment-size", str(SIZE), self.file, "--to",
                              self.store.url + "/runs/", "--retry=50", "--json"], env=ENV, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        reached.wait()
        self.store.close()
        self.store = Store(self.store.port, self.store.objects)
        out, said = p.communicate()
        self.assertEqual(p.returncode, 0, said)
        self.assertIn("again in", said)
        self.assertEqual(json.loads(out)["bytes"], len(self.data))
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def test_no_server(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))  # and nobody listens
            to = f"http://127.0.0.1:{s.getsockname()[1]}/x/"
            self.assertIn(to, self.push("--retry=0", status=1, to=to).stderr)
        self.assertEqual(self.read(self.file), self.data)

    def test_partial(self):
        self.push("-q")
        del self.store.objects[self.below + "manifest.sha256"]
        with_all = self.store.objects[self.below + "progress.sha256"]
        self.assertIn("--partial", self.fails_to_pull())
        # three segments and a half were there when the list was put, and more came later
        part = self.data[:3 * SIZE + 1000]
        sums = [hashlib.sha256(part[i:i + SIZE]).hexdigest() for i in range(0, len(part), SIZE)]
        lines = with_all.decode().splitlines()[:3] + [f"# bytes {len(part)}"]
        lines += [f"{s}  {i:08}.seg" for i, s in enumerate(sums)]
        self.store.objects[self.below + "progress.sha256"] = "\n".join(lines).encode() + b"\n"
        said = self.pull("--partial").stderr
        self.assertIn("is truncated", said)
        self.assertEqual(self.read(self.back), part)
        found = mallow("report", "--json", self.back)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertGreater(json.loads(found.stdout)["events"], 1000)


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.push("-q")

    def test_segments(self):
        good = self.store.objects[self.below + "00000002.seg"]
        for bad, said in ((None, "00000002.seg is missing"), (good[:-1], "too short"), (b"", "too short"),
                          (good[:-1] + bytes([good[-1] ^ 1]), "checksum differs"),
                          (good + bytes(1 << 20), "the answer is longer than")):
            with self.subTest(said):
                if bad is None:
                    del self.store.objects[self.below + "00000002.seg"]
                else:
                    self.store.objects[self.below + "00000002.seg"] = bad
                self.assertIn(said, self.fails_to_pull())

    def test_lists(self):
        path = self.below + "manifest.sha256"
        good = self.store.objects[path].decode()
        head, rest = good.split("\n", 1)
        for bad in ("", "<html>", head, good[:-2], good.replace("# bytes ", "# bytes 9"),
                    good.replace("# bytes ", "# bytes -"), good.replace(f"# segment_bytes {SIZE}", "# segment_bytes 0"),
                    good.replace(f"# segment_bytes {SIZE}", f"# segment_bytes {1 << 62}"),
                    good.replace("00000001.seg", "../../../etc"), good + good.splitlines()[-1] + "\n",
                    good.replace("00000001.seg", "00000007.seg"), head + "\n\0" + rest, good.upper(),
                    good.replace("# begins ", "# begins x")):
            with self.subTest(bad[:300]):
                self.store.objects[path] = bad.encode()
                self.assertIn("not a list of a recording's segments", self.fails_to_pull())
                self.assertIn("not a list", self.push(status=1).stderr)
        self.push("-q", "--replace")
        self.pull("-q")
        self.assertEqual(self.read(self.back), self.data)

    def test_a_list_without_end(self):
        def fault(handler, path, body):
            if not path.endswith("manifest.sha256"):
                return False
            handler.send_response(200)
            handler.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    handler.wfile.write(b"# and so on\n" * 9000)
            handler.close_connection = True
            return True
        self.store.fault = fault
        self.assertIn("the answer is longer than", self.fails_to_pull())

    def test_elsewhere(self):
        self.store.fault = lambda h, path, body: h.answer(302, Location="http://127.0.0.1:9/x\x1b[31m") or True
        said = self.fails_to_pull()
        self.assertIn("a redirection to http://127.0.0.1:9/x", said)
        self.assertNotIn("\x1b", said)
        self.assertIn("a redirection to", self.push("--retry=0", status=1).stderr)

    def test_words_do_not_reach_the_terminal_raw(self):
        self.store.fault = lambda h, path, body: h.answer(400, b"\x1b[31mno\nmore") or True
        self.assertIn("answers 400: ?[31mno", self.fails_to_pull())

    def test_nothing_there(self):
        self.store.objects.clear()
        self.assertIn("no recording in segments", self.fails_to_pull("--partial"))


class Signed(Case):
    def keys(self, text, mode=0o600):
        path = os.path.join(self.home, "keys")
        with open(path, "w", encoding="ascii") as f:
            f.write(text + "\n")
        os.chmod(path, mode)
        return path

    def test_for_s3(self):
        for token in ("", "a+token/of=many=="):
            with self.subTest(token=token):
                self.store.objects.clear()
                self.store.keys, self.store.region = ("AKIDEXAMPLE", "wJalr/XUtnFEMI+K7", token), "eu-central-1"
                keys = self.keys("AKIDEXAMPLE:wJalr/XUtnFEMI+K7" + (":" + token if token else ""))
                self.push("-q", "--remove", "--s3", keys, "--region=eu-central-1")
                self.pull("-q", "--s3", keys, "--region=eu-central-1")
                self.assertEqual(self.store.faults, [])
                self.assertEqual(self.read(self.back), self.data)
                self.file = shutil.copy(self.raw, self.file)

    def test_a_wrong_key_or_region(self):
        self.store.keys = ("AKIDEXAMPLE", "wJalr", "")
        said = self.push("--s3", self.keys("AKIDEXAMPLE:other"), status=1).stderr
        self.assertIn("403: the signature is another", said)
        self.assertIn("403", self.push("--s3", self.keys("AKIDEXAMPLE:wJalr"), "--region=x-1", status=1).stderr)
        self.assertEqual(self.store.objects, {})

    def test_the_file_of_keys(self):
        for text in ("AKIDEXAMPLE", "AKIDEXAMPLE:", ":wJalr", "A::b", ""):
            said = self.push("--s3", self.keys(text), status=2).stderr
            self.assertNotIn("wJalr", said)
        said = self.push("--s3", self.keys("A:wJalr", 0o644), status=1).stderr
        self.assertIn("chmod 600", said)
        self.assertNotIn("wJalr", said)
        said = self.push("--s3", self.keys("A:wJalr"), status=2, to="http://u@127.0.0.1:1/").stderr
        self.assertIn("not both", said)


class Killed(Case):
    """A server that is a process of its own, and keeps what it has in files below root/."""
    keys = ()

    def setUp(self):
        super().setUp()
        self.there = tempfile.mkdtemp(prefix="mallow-store-")  # a path without blanks
        self.addCleanup(shutil.rmtree, self.there)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.root = os.path.join(self.there, "root")
        os.mkdir(self.root)
        self.to = f"http://127.0.0.1:{self.port}/runs/"
        self.url = self.to + "a%20run.mlw"
        self.place = os.path.join(self.root, "runs", "a run.mlw")

    def serve(self, *command):
        self.server = subprocess.Popen(command, stderr=subprocess.DEVNULL)

        def is_there():
            self.assertIsNone(self.server.poll(), "the server ended")
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(is_there)

    def stop(self):
        self.server.kill()
        self.server.wait()

    def there_and_back(self):
        self.push("-q", "--remove", *self.keys, to=self.to)
        self.pull("-q", *self.keys)
        self.assertEqual(self.read(self.back), self.data)

    def put(self, segment):
        """What changes when a segment is put, also again."""
        try:
            found = os.stat(os.path.join(self.place, f"{segment:08}.seg"))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def both_killed(self):
        """Each side KILLS times, after a segment was put; each then goes on where it was."""
        rng, count = random.Random(15), -(-len(self.data) // SIZE)
        killed = {"server": 0, "uploader": 0}
        while min(killed.values()) < KILLS:
            who, segment = min(killed, key=killed.get), rng.randrange(count)
            before = self.put(segment)
            p = subprocess.Popen([MALLOW, "push", "-q", "--segments", "--segment-size", str(SIZE), self.file, "--to",
                                  self.to, "--retry=100", *self.keys], env=ENV, stderr=subprocess.DEVNULL)
            wait_until(lambda p=p, s=segment, b=before: p.poll() is not None or self.put(s) != b)
            if who == "server" and p.poll() is None:
                self.stop()
                killed["server"] += p.poll() is None
                self.start()
            elif who == "uploader":
                p.kill()
            killed["uploader"] += p.wait() == -9
            self.assertIn(p.returncode, (0, -9))
            self.assertEqual(self.read(self.file), self.data)
            if p.returncode == 0:
                self.pull("-q", *self.keys)
                self.assertEqual(self.read(self.back), self.data)
                shutil.rmtree(self.place)
        self.there_and_back()


class Signing(Killed):
    """A store like S3, which takes no request that is not signed."""

    def setUp(self):
        super().setUp()
        path = os.path.join(self.there, "keys")
        with open(path, "w", encoding="ascii") as f:
            f.write("AKIDEXAMPLE:wJalrXUtnFEMI\n")
        os.chmod(path, 0o600)
        self.keys = ("--s3", path)
        self.start()
        self.addCleanup(lambda: self.stop())

    def start(self):
        self.serve(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "store.py"), self.root,
                   str(self.port), "AKIDEXAMPLE:wJalrXUtnFEMI")

    def test_both_killed(self):
        self.assertIn("403", self.push(to=self.to, status=1).stderr)
        self.both_killed()


@unittest.skipUnless(shutil.which("nginx"), "SKIPPED, LOUDLY: nginx is not installed")
class Nginx(Killed):
    def setUp(self):
        super().setUp()
        temporary = "".join(f"{what}_temp_path {self.there}/{what};" for what in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(os.path.join(self.there, "conf"), "w", encoding="ascii") as f:
            f.write(f"""daemon off; master_process off; pid {self.there}/pid; error_log {self.there}/errors;
                events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{self.port}; root {self.root};
                client_max_body_size 0; location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }} }}""")
        self.start()
        self.addCleanup(lambda: self.stop())

    def start(self):
        self.serve("nginx", "-p", self.there, "-c", os.path.join(self.there, "conf"))

    def test_there_and_back(self):
        self.there_and_back()

    def test_both_killed(self):
        self.both_killed()


if __name__ == "__main__":
    have = [c for c in json.loads(mallow("doctor", "--json").stdout)["checks"] if c["name"] == "push"]
    if have[0]["status"] != "ok":
        print("SKIPPED, LOUDLY: this build has no libcurl")
    else:
        main()
