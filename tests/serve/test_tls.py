"""`mallow watch --listen` beyond loopback: only with a token and TLS, and then for those who have the token.
Asked by curl and go tool pprof."""
import base64
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from mallowtest import MALLOW, wait_until
from listening import LISTENS, SERVER

TOKEN = "0123456789abcdef-a-token"
TOOLS = ("curl", "openssl")


def certificate(place, name):
    """A key, and a certificate of its own for 127.0.0.1."""
    key, cert = f"{place}/{name}.key", f"{place}/{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=mallow test",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=300)
    os.chmod(key, 0o600)
    return key, cert


def secret(path, text, mode=0o600):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not LISTENS:
            raise unittest.SkipTest("SKIPPED, LOUDLY: this build has no libmicrohttpd")
        for tool in TOOLS:
            if not shutil.which(tool):
                raise unittest.SkipTest(f"SKIPPED, LOUDLY: no {tool}")
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.place = place.name
        cls.key, cls.cert = certificate(cls.place, "own")
        cls.token = secret(f"{cls.place}/token", TOKEN + "\n")


class Listening:
    def __init__(self, address, *options):
        self.err, self.url, self.listening = "", None, threading.Event()
        self.process = subprocess.Popen([MALLOW, "watch", "-q", "--json", "--period", "1", "--every", "1000h",
                                         "--listen", address, *options, "--", SERVER, "hold", "50", "wait"],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.err += line
            found = re.fullmatch(r"listening on (https?)://(.*):(\d+)/\n", line)
            if found:
                self.scheme, self.host, self.port = found.groups()
                self.url = f"{self.scheme}://127.0.0.1:{self.port}/"
                self.listening.set()

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
        self.process.wait(300)
        self.reader.join(300)
        self.process.stderr.close()


class Answers(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.watch = Listening("0.0.0.0:0", "--token-file", cls.token, "--tls-cert", cls.cert, "--tls-key", cls.key)
        cls.addClassCleanup(cls.watch.end)
        assert cls.watch.listening.wait(300), cls.watch.err
        wait_until(lambda: cls.curl()[0] == 200, "the program is watched")

    @classmethod
    def curl(cls, *options, url=None, token=TOKEN):
        """Status and body; 0 when there was no answer."""
        if token is not None:
            options += ("-H", f"Authorization: Bearer {token}")
        out = subprocess.run(["curl", "-sS", "--noproxy", "*", "--cacert", cls.cert, "-w", "\n%{http_code}", *options,
                              url or cls.watch.url + "report.json"], capture_output=True, text=True, check=False, timeout=300)
        body, _, status = out.stdout.rpartition("\n")
        return int(status), body

    def test_who_has_the_token(self):
        self.assertEqual((self.watch.scheme, self.watch.host), ("https", "0.0.0.0"))
        status, body = self.curl()
        self.assertEqual((status, json.loads(body)["kind"]), (200, "all"))
        for path in ("", "metrics", "debug/pprof/heap"):
            self.assertEqual(self.curl("-o", "/dev/null", url=self.watch.url + path)[0], 200, path)
        self.assertEqual(self.curl("-u", f"anybody:{TOKEN}", token=None)[0], 200)
        self.assertEqual(self.curl("-H", "Host: mallow.example")[0], 200)

    def test_who_has_not(self):
        for path in ("", "report.json", "metrics", "debug/pprof/heap", "debug/pprof/allocs?seconds=600", "nothing"):
            status, body = self.curl(url=self.watch.url + path, token=None)
            self.assertEqual(status, 401, path)
            self.assertNotIn(TOKEN, body)
        for token in ("", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TOKEN + " x", "x" * 5000):
            self.assertEqual(self.curl(token=token)[0], 401, token[:40])
        basic = base64.b64encode(f"{TOKEN}:".encode()).decode()
        for value in (TOKEN, f"Token {TOKEN}", f"Bearer{TOKEN}", "Basic", "Basic !", f"Basic {basic}", f"Basic {TOKEN}"):
            self.assertEqual(self.curl("-H", f"Authorization: {value}", token=None)[0], 401, value)
        self.assertEqual(self.curl("-H", "Authorization: Bearer other")[0], 401)  # two of them
        self.assertEqual(self.curl("-u", f"{TOKEN}:x", token=None)[0], 401)
        self.assertEqual(self.curl("-X", "POST", token=None)[0], 405)
        out = subprocess.run(["curl", "-sSi", "--noproxy", "*", "--cacert", self.cert, self.watch.url],
                             capture_output=True, text=True, check=True, timeout=300).stdout
        self.assertIn('WWW-Authenticate: Basic realm="mallow", Bearer realm="mallow"', out)

    def test_without_tls(self):
        """No answer, and others are answered."""
        for sent in (b"GET /report.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n",
                     b"\x16\x03\x01\xff\xff" + os.urandom(3000), b"\0" * 3000):
            with socket.create_connection(("127.0.0.1", int(self.watch.port)), timeout=300) as s:
                found = b""
                try:
                    s.sendall(sent)
                    s.shutdown(socket.SHUT_WR)
                    while part := s.recv(65536):
                        found += part
                except OSError:  # it has hung up
                    pass
            self.assertNotIn(b"HTTP/1", found)
            self.assertNotIn(b"sites", found)
        self.assertEqual(self.curl(url=self.watch.url.replace("https", "http") + "report.json")[0], 0)
        self.assertEqual(self.curl()[0], 200)

    def test_handshakes_that_are_never_done(self):
        silent = [socket.create_connection(("127.0.0.1", int(self.watch.port)), timeout=300) for _ in range(100)]
        try:
            self.assertEqual(self.curl()[0], 200)
        finally:
            for s in silent:
                s.close()

    def test_other_certificates(self):
        """The client notices another server: this is not to be switched off by accident."""
        _, other = certificate(self.place, "other")
        self.assertEqual(self.curl("--cacert", other)[0], 0)

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_pprof(self):
        with tempfile.TemporaryDirectory() as home:
            out = subprocess.run(["go", "tool", "pprof", "-raw", f"https://x:{TOKEN}@127.0.0.1:{self.watch.port}/debug/pprof/heap"], capture_output=True,
                                 text=True, check=False, timeout=300, env={**os.environ, "HOME": home, "PPROF_TMPDIR": home,
                                      "SSL_CERT_FILE": self.cert})
        self.assertIn("forgets_to_free", out.stdout, out.stderr)

    def test_the_token_is_nowhere_else(self):
        pid = self.watch.process.pid
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", "rb") as f:
                self.assertNotIn(TOKEN.encode(), f.read())
        self.assertNotIn(TOKEN, self.watch.err)


class Loopback(Case):
    def test_a_token_alone(self):
        watch = Listening("127.0.0.1:0", "--token-file", self.token)
        self.addCleanup(watch.end)
        self.assertTrue(watch.listening.wait(300), watch.err)
        self.assertEqual(watch.scheme, "http")

        def status(*options):
            return subprocess.run(["curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", *options,
                                   watch.url + "metrics"], capture_output=True, text=True, check=True, timeout=300).stdout
        self.assertEqual(status(), "401")
        self.assertEqual(status("-H", f"Authorization: Bearer {TOKEN}"), "200")

    def test_tls_alone(self):
        """Pages of other sites are kept out by the name, as without TLS."""
        watch = Listening("127.0.0.1:0", "--tls-cert", self.cert, "--tls-key", self.key)
        self.addCleanup(watch.end)
        self.assertTrue(watch.listening.wait(300), watch.err)
        for host, wanted in (("127.0.0.1", "200"), ("evil.example", "421")):
            out = subprocess.run(["curl", "-sS", "--noproxy", "*", "--cacert", self.cert, "-o", "/dev/null", "-w",
                                  "%{http_code}", "-H", f"Host: {host}", watch.url + "metrics"], capture_output=True,
                                 text=True, check=True, timeout=300).stdout
            self.assertEqual(out, wanted)


class Refused(Case):
    def refused(self, options, why, status=2):
        out = subprocess.run([MALLOW, "watch", *options, "--", "/bin/echo", "ran"], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, check=False, timeout=300)
        self.assertEqual((out.returncode, out.stdout), (status, ""), (options, out.stderr))
        self.assertIn(why, out.stderr)
        self.assertNotIn(TOKEN, out.stderr)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)

    def test_half_of_it(self):
        beyond, tls = ("--listen", "0.0.0.0:0"), ("--tls-cert", self.cert, "--tls-key", self.key)
        for options in ((), ("--token-file", self.token), tls):
            self.refused(beyond + options, "needs a token and TLS")
        for options in (tls[:2], tls[2:]):
            self.refused(("--listen", "127.0.0.1:0") + options, "both a certificate and its key")
        short = secret(f"{self.place}/short", "letmein")
        self.refused(beyond + tls + ("--token-file", short), "fewer than 16 characters")
        for options in (tls, ("--token-file", self.token)):
            self.refused(options, "needs --listen")

    def test_files(self):
        def options(**files):
            given = {"token-file": self.token, "tls-cert": self.cert, "tls-key": self.key, **files}
            return ["--listen", "0.0.0.0:0"] + [x for name, path in given.items() for x in ("--" + name, path)]
        loose = secret(f"{self.place}/loose", TOKEN, 0o644)
        self.refused(options(**{"token-file": loose}), "can be read or changed by other users", 125)
        with open(self.key, encoding="ascii") as f:
            loose_key = secret(f"{self.place}/loose.key", f.read(), 0o640 | 0o004)
        self.refused(options(**{"tls-key": loose_key}), "can be read or changed by other users", 125)
        self.refused(options(**{"tls-key": f"{self.place}/none"}), "--tls-key", 125)
        self.refused(options(**{"tls-cert": f"{self.place}/none"}), "--tls-cert", 125)
        self.refused(options(**{"tls-cert": self.place}), "--tls-cert", 2)
        self.refused(options(**{"token-file": secret(f"{self.place}/empty", "\n")}), "nothing in its first line")
        key, _ = certificate(self.place, "third")
        self.refused(options(**{"tls-key": key}), "do not match", 125)
        self.refused(options(**{"tls-cert": self.token}), "do not match", 125)
        self.refused(options(**{"tls-key": self.token}), "do not match", 125)
        self.refused(options(**{"tls-key": secret(f"{self.place}/long.key", "x" * 70000)}), "longer than 65536")
