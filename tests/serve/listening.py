"""A `mallow watch --listen` and its clients."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading

from mallowtest import MALLOW, program, wait_until

SERVER, LISTENS = program("watch/server"), os.environ["LISTENS"]  # empty: this build cannot listen
NEVER = "1000h"


class Listening:
    """mallow watch --json of `server ARGS`; every block is sampled."""

    def __init__(self, *args, options=("--listen", "127.0.0.1:0")):
        self.err = ""
        self.listening = threading.Event()
        self.process = subprocess.Popen([MALLOW, "watch", "--json", "--period", "1", "--every", NEVER, *options, "--",
                                         SERVER, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.err += line
            if line.startswith("listening on "):
                self.url = line.split()[2]
                self.port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", self.url).group(1))
                self.listening.set()

    def wait(self):
        """Until it listens and the program is watched."""
        assert self.listening.wait(300), self.err
        wait_until(lambda: self.get("/report.json")[0] == 200, "the program is watched")
        return self

    def get(self, path, **headers):
        """Status, headers, body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        c.request("GET", path, headers=headers)
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer.status, answer.headers, body

    def json(self, path="/report.json"):
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def connect(self, text=b""):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=300)
        if text:
            s.sendall(text)
        return s

    def next(self, kind):
        """The next object of this kind on standard output."""
        for line in self.process.stdout:
            if line.startswith("{") and json.loads(line)["kind"] == kind:
                return json.loads(line)
        raise EOFError(self.err)

    def signal(self, number):
        self.process.send_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)  # mallow passes it to the program
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(300)
        self.reader.join(300)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


def sockets(pid):
    """Its open sockets of TCP: local address and port."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found.group(1))
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with open(f"/proc/{pid}/net/{name}", encoding="ascii") as f:
            found += [words[1] for words in map(str.split, list(f)[1:]) if words[9] in inodes]
    return found
