"""`mallow push`: what arrives at a store, what is tried again, and what is told when it fails."""
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest

from mallowtest import MALLOW, Test, main
from cli import mallow

PLAIN = {"no_proxy": "*", "HOME": "/nonexistent"}


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def take(self):
        asked = {"method": self.command, "path": self.path, "headers": dict(self.headers.items())}
        script = self.server.script
        status, headers, body = script.pop(0) if script else (201, {}, b"")
        if status == 417:  # before the body
            self.close_connection = True
        else:
            asked["body"] = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(asked)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = take

    def log_message(self, *_):
        pass


class Push(Test):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        self.server.daemon_threads = True
        self.server.asked = []
        self.server.script = []
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.port = self.server.server_address[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.data = bytes(range(256)) * 9000  # more than libcurl reads at once, or sends unasked
        self.file = self.write("a run.mlw", self.data)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def push(self, *arguments, status=0, **more):
        out = mallow("push", *arguments, env=PLAIN, **more)
        self.assertEqual(out.returncode, status, out.stderr)
        return out

    def fails(self, *arguments, status=1):
        out = self.push(*arguments, status=status)
        self.assertEqual(out.stdout, "")
        self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
        return out.stderr

    def test_put(self):
        out = self.push(self.file, "--to", self.base + "/runs/today.mlw")
        [asked] = self.server.asked
        self.assertEqual((asked["method"], asked["path"]), ("PUT", "/runs/today.mlw"))
        self.assertEqual(asked["body"], self.data)
        self.assertEqual(asked["headers"]["Content-Type"], "application/octet-stream")
        self.assertRegex(asked["headers"]["User-Agent"], r"^mallow/\d")
        self.assertIn(f"a run.mlw: 2.2 MB sent to {self.base}/runs/today.mlw in ", out.stdout)
        self.assertEqual(out.stderr, "")

    def test_post_and_types(self):
        self.push(self.write("r.json", b'{"schema":1}'), "--to", self.base + "/in", "--method=post", "-q")
        self.push(self.write("r.html", b"<!doctype html>"), "--to", self.base + "/in", "--header",
                  "content-type: text/x-mine")
        self.push(self.write("empty", b""), "--to", self.base + "/in")
        types = [a["headers"].get("Content-Type", a["headers"].get("content-type")) for a in self.server.asked]
        self.assertEqual(types, ["application/json", "text/x-mine", "application/octet-stream"])
        self.assertEqual([(a["method"], len(a["body"])) for a in self.server.asked],
                         [("POST", 12), ("PUT", 15), ("PUT", 0)])

    def test_the_name_goes_behind_a_slash(self):
        self.push(self.file, "--to", self.base + "/runs/")
        self.assertEqual(self.server.asked[0]["path"], "/runs/a%20run.mlw")
        with open(self.file, "rb") as f:
            self.push("-", "--to", self.base + "/runs/x", stdin=f)
        self.assertEqual(self.server.asked[1]["body"], self.data)
        self.assertIn("no name", self.fails("-", "--to", self.base, status=2))

    def test_json(self):
        self.server.script = [(201, {"Location": "/stored/7?token=s3cret"}, b"")]
        out = self.push(self.file, "--to", f"http://me:pass@127.0.0.1:{self.port}/in?signature=s3cret", "--json")
        found = json.loads(out.stdout)
        self.assertGreater(found.pop("duration_ns"), 0)
        self.assertEqual(found, {"schema": 1, "mallow": found["mallow"], "file": self.file, "url": self.base + "/in", "location": "/stored/7",
                                 "http_status": 201, "sent_bytes": len(self.data), "tries": 1})
        self.assertEqual(self.server.asked[0]["path"], "/in?signature=s3cret")
        self.assertEqual(self.server.asked[0]["headers"]["Authorization"], "Basic bWU6cGFzcw==")

    def test_headers(self):
        secrets = self.write("secrets", b"X-Key: s3cret\n\nX-Other: b\r\n")
        self.push(self.file, "--to", self.base + "/in", "--header", "@" + secrets, "--header", "X-Third: c: d")
        headers = self.server.asked[0]["headers"]
        self.assertEqual([headers["X-Key"], headers["X-Other"], headers["X-Third"]], ["s3cret", "b", "c: d"])
        for wrong in ("s3cret", ": s3cret", "a b: s3cret", "content-length: 5", "A: b\r\nC: s3cret"):
            with self.subTest(wrong):
                self.assertNotIn("s3cret", self.fails(self.file, "--to", self.base, "--header", wrong, status=2))
        self.assertIn("not-there", self.fails(self.file, "--to", self.base, "--header", "@not-there"))

    def test_netrc(self):
        self.write(".netrc", b"machine 127.0.0.1 login me password pass\n")
        out = mallow("push", self.file, "--to", self.base + "/in", env=dict(PLAIN, HOME=self.folder))
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(self.server.asked[0]["headers"]["Authorization"], "Basic bWU6cGFzcw==")

    def test_what_passes_is_tried_again(self):
        self.server.script = [(503, {"Retry-After": "1"}, b"busy\n"), (None, {}, b"")]
        out = self.push(self.file, "--to", self.base + "/in", "--json")
        self.assertEqual([a["body"] == self.data for a in self.server.asked], [True] * 3)
        self.assertEqual(json.loads(out.stdout)["tries"], 3)
        self.assertIn("answers 503: busy; again in 1.00 s", out.stderr)
        self.assertEqual(out.stderr.count("again in"), 2)

    def test_what_does_not_is_told(self):
        self.server.script = [(403, {}, b"\n<Error>no \x1b[31msuch key</Error>\nmore")]
        said = self.fails(self.file, "--to", self.base + "/in?key=s3cret")
        self.assertIn(f"{self.base}/in answers 403: <Error>no ?[31msuch key</Error>", said)
        self.assertNotIn("s3cret", said)
        self.server.script = [(500, {}, b""), (500, {}, b"")]
        self.assertIn("answers 500", self.fails(self.file, "--to", self.base + "/in", "--retry=0"))
        self.assertEqual(len(self.server.asked), 2)

    def test_nobody_is_followed(self):
        self.server.script = [(307, {"Location": "http://127.0.0.1:9/elsewhere"}, b"")]
        said = self.fails(self.file, "--to", self.base + "/in", "--header", "X-Key: s3cret")
        self.assertIn("answers 307, a redirection to http://127.0.0.1:9/elsewhere", said)

    def test_no_store(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))  # and nobody listens
            port = s.getsockname()[1]
            said = self.fails(self.file, "--to", f"http://127.0.0.1:{port}/in", "--retry=0")
            self.assertIn(f"127.0.0.1:{port}", said)
            s.listen()  # and nobody answers
            said = self.fails(self.file, "--to", f"http://127.0.0.1:{port}/in", "--retry=0", "--timeout=1s")
            self.assertIn(f"127.0.0.1:{port}", said)

    def stubborn(self, begin, piece, pause):
        """A port where somebody takes the file and answers without end, until the other side has enough."""
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def answer():
            there, _ = listening.accept()
            try:
                there.recv(1 << 16)
                there.sendall(begin)
                while True:
                    there.sendall(piece)
                    time.sleep(pause)
            except OSError:
                pass
            there.close()

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(listening.close)
        self.addCleanup(thread.join)
        return f"http://127.0.0.1:{listening.getsockname()[1]}/in"

    def test_an_answer_that_drips(self):
        for begin in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"):
            url = self.stubborn(begin, b"X-More: yes, and it never ends\r\n" * 64, 0.2)
            said = self.fails(self.file, "--to", url, "--retry=0", "--timeout=1s")
            self.assertRegex(said, "was still incomplete|Operation too slow")

    def test_an_answer_without_end(self):
        for begin in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"):
            url = self.stubborn(begin, b"X-More: yes, and it never ends\r\n" * 512, 0)
            said = self.fails(self.file, "--to", url, "--retry=0", "--timeout=1h")
            self.assertRegex(said, "longer than 1024 KiB|Too (large|many) response headers")

    def test_certificates(self):
        openssl = shutil.which("openssl")
        if not openssl:
            self.skipTest("SKIPPED, LOUDLY: openssl is not installed")
        key, cert = os.path.join(self.folder, "key"), os.path.join(self.folder, "cert")
        subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                        "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        url = f"https://127.0.0.1:{self.port}/in"
        self.assertIn("--ca FILE", self.fails(self.file, "--to", url))
        self.assertEqual(self.server.asked, [])
        self.push(self.file, "--to", url, "--ca", cert)
        self.assertEqual(self.server.asked[0]["body"], self.data)
        self.assertIn("not-there", self.fails(self.file, "--to", url, "--ca", "not-there"))

    def test_usage(self):
        self.assertIn("--to URL", self.fails(self.file, status=2))
        for url in ("ftp://127.0.0.1/x", "file:///tmp/x", "127.0.0.1", "http://", "http://a b/"):
            with self.subTest(url):
                self.assertIn("http", self.fails(self.file, "--to", url, status=2))
        self.assertIn("a directory", self.fails(self.folder, "--to", self.base, status=2))
        self.assertIn("not a file", self.fails("/dev/null", "--to", self.base, status=2))
        self.assertIn("not-there", self.fails("not-there", "--to", self.base))
        self.assertEqual(self.server.asked, [])

    def test_a_raw_recording_is_told(self):
        out = self.push(self.write("raw.mlw", b"MLC1" + bytes(60)), "--to", self.base + "/in")
        self.assertIn("not sealed", out.stderr)


    def test_nothing_else_waits_for_libcurl(self):
        out = subprocess.run([MALLOW, "--version"], env={**PLAIN, "LD_DEBUG": "libs"}, capture_output=True, text=True,
                             check=True)
        self.assertIn("libelf", out.stderr)
        self.assertNotIn("curl", out.stderr)

    def test_without_libcurl_it_says_so(self):
        broken = os.path.join(self.folder, "broken")
        os.mkdir(broken)
        for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            self.write(os.path.join("broken", name), b"")
        env = {**PLAIN, "LD_LIBRARY_PATH": broken}
        out = mallow("push", self.write("x.mlw", b"x"), "--to", self.base + "/in", env=env)
        self.assertEqual((out.returncode, out.stdout), (1, ""))
        self.assertIn("libcurl.so.4", out.stderr)
        self.assertIn("'apt-get install libcurl4'", out.stderr)
        [found] = [c for c in json.loads(mallow("doctor", "--json", env=env).stdout)["checks"] if c["name"] == "push"]
        self.assertEqual((found["status"], found["remedy"]), ("missing", "apt-get install libcurl4"))
        self.assertEqual(self.server.asked, [])


class Without(unittest.TestCase):
    def test_a_build_without_libcurl_says_so(self):
        out = mallow("push", "/dev/null", "--to", "http://127.0.0.1:9/", env=PLAIN)
        self.assertEqual(out.returncode, 1)
        self.assertIn("libcurl", out.stderr)
        self.assertIn("'apt-get install libcurl4", out.stderr)


if __name__ == "__main__":
    have = [c for c in json.loads(mallow("doctor", "--json").stdout)["checks"] if c["name"] == "push"]
    if have[0]["status"] == "ok":
        del Without
    else:
        del Push
        print("SKIPPED, LOUDLY: all that sends; this build has no libcurl")
    main()
