"""Clients of `mallow watch --listen` that mean harm: others are answered all the same, the program goes on,
and nothing is kept."""
import os
import socket
import unittest

from mallowtest import LONG, wait_until
from listening import LISTENS, Listening

GET = b"GET /report.json HTTP/1.1\r\n"


def answer(s):
    """All that comes until the server hangs up."""
    found = b""
    try:
        while part := s.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


@unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.watch = Listening("hold", "100", "wait").wait()
        cls.descriptors = cls.open_descriptors()

    @classmethod
    def open_descriptors(cls):
        return len(os.listdir(f"/proc/{cls.watch.process.pid}/fd"))

    @classmethod
    def tearDownClass(cls):
        cls.watch.__exit__()

    def tearDown(self):
        self.assertEqual(self.watch.json()["kind"], "all")
        self.assertIsNone(self.watch.process.poll())
        wait_until(lambda: self.open_descriptors() <= self.descriptors + 1, "connections are closed")

    def status(self, *headers):
        with self.watch.connect(GET + b"".join(h + b"\r\n" for h in headers) + b"Connection: close\r\n\r\n") as s:
            return answer(s).split(b" ", 2)[1:2]

    def test_names_of_other_sites(self):
        for host in (b"evil.example", b"127.0.0.1.evil.example", b"localhost.evil.example", b"10.0.0.1", b"0.0.0.0", b"[::]", b"",
                     b"localhost@evil.example", b"127.0.0.1:80@evil.example", b"[::1].evil.example", b"2130706433", b"127.1",
                     b"\xff", b"a" * 4000, b"[::1", b"localhost:evil"):
            self.assertEqual(self.status(b"Host: " + host), [b"421"], host)
        for host in (b"localhost", b"LOCALHOST:1", b"127.0.0.1", b"127.9.9.9:80", b"[::1]:8080", b"localhost:65535"):
            self.assertEqual(self.status(b"Host: " + host), [b"200"], host)
        self.assertEqual(self.status(b"Host: localhost", b"Host: evil.example"), [b"421"])
        self.assertEqual(self.status(b"Host: evil.example", b"Host: localhost"), [b"421"])
        self.assertIn(self.status(), ([b"421"], [b"400"]))

    def test_other_methods(self):
        for method in (b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE", b"XYZ"):
            with self.watch.connect(method + b" /report.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello") as s:
                self.assertIn(answer(s)[:13], (b"HTTP/1.1 405 ", b"HTTP/1.1 400 "), method)

    def test_garbage(self):
        for bytes_sent in (b"\0" * 100 + b"\r\n\r\n", os.urandom(5000) + b"\r\n\r\n", b"\r\n" * 500, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                           b"\x16\x03\x01\x02\x00\x01\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET " + b"%00" * 300 + b" HTTP/1.1\r\n\r\n",
                           GET + b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"):
            with self.watch.connect(bytes_sent) as s:
                s.shutdown(socket.SHUT_WR)
                found = answer(s)
                self.assertNotRegex(found[:16], rb"^HTTP/1\.1 (2|500)", bytes_sent[:40])

    def test_headers_without_end(self):
        for start in (b"GET /" + b"a" * 100, GET + b"Host: localhost\r\nX: "):
            sent = 0
            with self.watch.connect(start) as s:
                try:
                    while sent < 64 << 20:
                        sent += s.send(b"a" * 65536)
                except (ConnectionResetError, BrokenPipeError):
                    pass
            self.assertLess(sent, 64 << 20)

    def test_many_slow_connections_do_not_keep_others_out(self):
        slow = [self.watch.connect(GET + b"Host: loc") for _ in range(200)]
        try:
            self.assertEqual(self.watch.json()["kind"], "all")
            self.assertLess(self.open_descriptors(), self.descriptors + 64)
        finally:
            for s in slow:
                s.close()

    def test_many_that_wait(self):
        """Differences that take long are few; one more is told so, others are answered."""
        waiting = [self.watch.connect(b"GET /debug/pprof/heap?seconds=3 HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(12)]
        try:
            self.assertEqual(self.watch.json()["kind"], "all")
            found = sorted(s.recv(12) for s in waiting)
            self.assertEqual(found, [b"HTTP/1.1 200"] * 8 + [b"HTTP/1.1 503"] * 4)
        finally:
            for s in waiting:
                s.close()

    def test_clients_that_leave_while_they_wait(self):
        """Their places are free again, long before their answers would be due."""
        for more in (b"", b"GET / HTTP/1.1\r\n"):  # bytes that nobody reads stand before the end
            gone = [self.watch.connect(b"GET /debug/pprof/heap?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n" + more) for _ in range(8)]
            with self.watch.connect(b"GET /debug/pprof/heap?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n") as s:
                self.assertEqual(s.recv(12), b"HTTP/1.1 503")  # all eight wait
            for s in gone:
                s.close()

            def answered():
                with self.watch.connect(b"GET /debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n") as s:
                    return s.recv(12) == b"HTTP/1.1 200"
            wait_until(answered, "a place of those who left is free", 120)

    def test_connections_that_are_given_up(self):
        for path in (b"/report.json", b"/debug/pprof/heap?seconds=1"):
            for _ in range(50):
                self.watch.connect(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").close()

    @unittest.skipUnless(LONG, "MALLOW_LONG=1")
    def test_drips_end(self):
        """A byte now and then, and an answer that is not read, keep no connection."""
        drip = self.watch.connect(GET)
        unread = self.watch.connect((GET + b"Host: localhost\r\n\r\n") * 2000)

        def ended():
            try:
                drip.sendall(b"X")
                return False
            except OSError:
                return True
        wait_until(ended, "the drip ends")
        wait_until(lambda: self.open_descriptors() <= self.descriptors + 1, "the unread one ends", 120)
        drip.close()
        unread.close()
