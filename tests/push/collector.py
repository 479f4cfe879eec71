"""A server that profiles are pushed to, and a `mallow watch` that pushes. Environment (set by meson):
MALLOW, SERVER (tests/watch/server.c)."""
import gzip
import http.server
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse

from mallowtest import MALLOW, program, wait_until

SERVER = program("watch/server")
NEVER = "1000h"
QUIET = {"no_proxy": "*", "HOME": "/nonexistent"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # a client that was killed
            return
        asked = {"path": self.path, "headers": dict(self.headers.items()), "body": body, "time": time.monotonic()}
        with self.server.lock:
            self.server.asked.append(asked)
            n = len(self.server.asked)
        status, headers, text = self.server.answer(n, asked)
        if status is None:  # the connection ends instead
            self.close_connection = True
            return
        if status == 200:
            with self.server.lock:
                self.server.taken.append(asked)
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, *_):
        pass


def accept(_n, _asked):
    return 200, {}, b""


class Collector:
    """answer(number of the request, request) -> status, headers, body. asked: all; taken: those that got 200."""

    def __init__(self, answer=accept, port=0, certificate=None):
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.http.lock = threading.Lock()
        self.http.asked, self.http.taken, self.http.answer = [], [], answer
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()

    @property
    def asked(self):
        with self.http.lock:
            return list(self.http.asked)

    @property
    def taken(self):
        with self.http.lock:
            return list(self.http.taken)

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Pushing:
    """mallow watch --push of `server hold 500 wait`; every block is sampled."""

    def __init__(self, url, *options, every="100ms", reports=NEVER, pid=None, env=None):
        what = ["-p", str(pid)] if pid else ["--period", "1", "--", SERVER, "hold", "500", "wait"]
        self.process = subprocess.Popen(
            [MALLOW, "watch", "--json", "--every", reports, "--push", url, "--push-every", every, *options, *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, **QUIET, **(env or {})})
        self.out = self.err = ""
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.read_reports)]
        for r in self.readers:
            r.start()

    def read(self):
        for line in self.process.stderr:
            self.err += line

    def read_reports(self):
        for line in self.process.stdout:
            self.out += line

    def says(self, text):
        wait_until(lambda: text in self.err, f"it says '{text}'")

    def end(self):
        """Lets the program end; what was said."""
        self.process.stdin.close()
        self.process.wait(300)
        for r in self.readers:
            r.join(300)
        return self.err

    def kill(self):
        """Only mallow; the program ends as its input does."""
        self.process.send_signal(signal.SIGKILL)
        return self.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(300)
        for r in self.readers:
            r.join(300)
        self.process.stdout.close()
        self.process.stderr.close()


def query(asked):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(asked["path"]).query))


# ---- pprof, read from its definition alone ----

def fields(data):
    """(number, value) of a protobuf message; bytes for length-delimited ones."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at
    at = 0
    while at < len(data):
        tag, at = varint(at)
        if tag & 7 == 0:
            value, at = varint(at)
        elif tag & 7 == 2:
            size, at = varint(at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        elif tag & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            raise ValueError(f"wire type {tag & 7}")
        yield tag >> 3, value


def packed(data):
    """The varints of a packed field, as int64."""
    found, value, shift = [], 0, 0
    for byte in data:
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            found.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    assert not shift
    return found


class Profile:
    """types: names of the values; samples: [(values, [function, ...])], innermost first."""

    def __init__(self, zipped):
        self.bytes = gzip.decompress(zipped)
        top = list(fields(self.bytes))
        texts = [v.decode() for n, v in top if n == 6]
        assert texts[0] == ""
        self.types = [texts[dict(fields(v))[1]] for n, v in top if n == 1]
        names = {m[1]: texts[m[2]] for m in (dict(fields(v)) for n, v in top if n == 5)}
        places = {}
        for n, v in top:
            if n == 4:
                parts = list(fields(v))
                places[dict(parts)[1]] = [names[dict(fields(line))[1]] for k, line in parts if k == 4]
        self.samples = []
        for n, v in top:
            if n == 2:
                m = dict(fields(v))
                self.samples.append((packed(m[2]), [f for p in packed(m[1]) for f in places[p]]))
        one = dict(top)
        self.time_ns, self.duration_ns, self.default = one.get(9, 0), one.get(10, 0), texts[one.get(14, 0)]

    def total(self, name, function=None):
        at = self.types.index(name)
        return sum(values[at] for values, stack in self.samples if not function or function in stack)
