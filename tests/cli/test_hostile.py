"""Names that another user chose (of a program, its directory, its arguments, its functions, a store's answer) never
reach standard output or standard error raw: no control, no bidirectional override, no bytes that are not UTF-8.
Environment: MALLOW, HOSTILE (hostile.c)."""
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from mallowtest import MALLOW, program

HOSTILE = program("cli/hostile")
EVIL = b"\x1b]0;owned\x07\x1b[31m\xc2\x9b2J\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\r\nfake: line\xff\x7f"
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FUNCTION = b"name_of_a_function_that_is_replaced"


def run(*arguments, status=(0,), **more):
    """Both outputs, after they were found harmless."""
    out = subprocess.run([os.fsencode(MALLOW)] + [a if isinstance(a, bytes) else os.fsencode(a) for a in arguments],
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False, **more)
    assert out.returncode in status, (arguments, out)
    return harmless(out.stdout, arguments), harmless(out.stderr, arguments)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def harmless(data, what):
    text = data.decode()  # fails when it is not UTF-8
    text = text.replace("\t", " ")  # of ours: tables
    bad = FORBIDDEN.search(text)
    assert not bad, (what, text[max(0, bad.start() - 60):bad.end() + 60])
    assert not re.search(r"^fake: line", text, re.M), (what, text)
    return text


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = os.fsencode(tempfile.mkdtemp())
        inner = os.path.join(cls.directory, b"d" + EVIL)
        os.mkdir(inner)
        cls.program = os.path.join(inner, b"p" + EVIL)
        data = read(HOSTILE)
        assert FUNCTION in data
        name = (b"f" + EVIL)[:len(FUNCTION)]
        with open(cls.program, "wb") as f:
            f.write(data.replace(FUNCTION, name + b"x" * (len(FUNCTION) - len(name))))
        os.chmod(cls.program, 0o755)
        cls.recording = os.path.join(inner, b"r" + EVIL + b".mlw")
        subprocess.run([os.fsencode(MALLOW), b"record", b"-o", cls.recording, cls.program], check=True,
                       capture_output=True, timeout=600)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def test_record(self):
        run("record", "-o", self.recording + b"2", self.program)

    def test_reports(self):
        out, _ = run("report", self.recording)
        self.assertIn("\\x1b]0;owned", out)
        self.assertIn("\\u009b2J", out)
        self.assertIn("\\u202e", out)
        run("report", "--tree", self.recording, status=(0, 2))
        run("dump", self.recording)
        run("dump", "--json", self.recording)
        run("diff", self.recording, self.recording)
        run("doctor", self.program, status=(0, 1))

    def test_json(self):
        """Nothing raw, and yet nothing lost but what is no UTF-8."""
        out, _ = run("report", "--json", self.recording)
        found = json.loads(out)["processes"][0]["exe"]
        self.assertEqual(found, self.program.decode(errors="replace"))
        for arguments in (["diff", "--json", self.recording, self.recording], ["doctor", "--json", self.program]):
            json.loads(run(*arguments, status=(0, 1))[0])

    def test_exports(self):
        for name in ("folded", "csv", "massif", "heaptrack", "speedscope", "chrome"):
            with self.subTest(format=name):
                run("export", "--format", name, self.recording)

    def test_errors(self):
        nothing = os.path.join(self.directory, b"n" + EVIL)
        for arguments in (["report", nothing], ["dump", nothing], ["replay", nothing], ["workload", nothing, "-o", nothing],
                          ["import", nothing], ["compare", nothing], ["push", nothing, "--to", "http://127.0.0.1:1/"],
                          ["record", "--", nothing], ["watch", "--", nothing], ["report", self.program],
                          ["import", self.program], [EVIL], ["report", b"--" + EVIL], ["control", EVIL, "sync"],
                          ["watch", "-p", EVIL], ["probe", EVIL], ["doctor", nothing],
                          ["record", "-o", nothing + b"/x", "--", "/bin/true"]):
            with self.subTest(arguments=arguments):
                _, err = run(*arguments, status=(1, 2, 125, 126, 127))
                self.assertTrue(err)

    def test_watch(self):
        process = subprocess.Popen([MALLOW.encode(), b"watch", b"--period", b"1K", b"--every", b"1s", b"--", self.program,
                                    b"wait" + EVIL], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        children = []
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            children = read(f"/proc/{process.pid}/task/{process.pid}/children").split()
            if children and b"mallow-watch-session" in read(f"/proc/{int(children[0])}/maps"):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGHUP)
        os.kill(int(children[0]), signal.SIGTERM)
        out, err = process.communicate(timeout=600)
        harmless(out, "watch")
        harmless(err, "watch")
        self.assertIn("\\x1b", (out + err).decode())

    def test_answer_of_a_store(self):
        class Store(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.wfile.write(b"HTTP/1.1 201 Created\r\nLocation: /x\xc2\x9b31m\xe2\x80\xae\xff\r\n"
                                 b"Content-Length: 0\r\n\r\n")

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Store)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            to = f"http://127.0.0.1:{server.server_port}/x"
            env = dict(os.environ, no_proxy="*", HOME="/nonexistent")
            out, _ = run("push", self.recording, "--to", to, env=env)
            self.assertIn("/x\\u009b31m\\u202e\\xff", out)
            found = json.loads(run("push", "--json", self.recording, "--to", to, env=env)[0])
            self.assertIn("/x\x9b31m\u202e", found["location"])
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
