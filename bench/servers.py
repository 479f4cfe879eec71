"""The servers that bench/attach.py attaches to: how each is started, asked, and what process does its work.

Each is a context: `pid` works, `ask(n)` is its answer to question n, a byte string that depends on n alone. What is not
installed raises Missing, with the way to get it."""
import http.client
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Missing(Exception):
    pass


def find(program, package):
    path = shutil.which(program) or next((p for p in (f"/usr/sbin/{program}", f"/usr/bin/{program}") if os.access(p, os.X_OK)), None)
    if not path:
        raise Missing(f"{program} is not installed (apt-get install {package})")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(said, what):
    end = time.monotonic() + 120
    while True:
        try:
            found = said()
            if found:
                return found
        except OSError:
            pass
        if time.monotonic() > end:
            raise RuntimeError(f"{what} never came to be")
        time.sleep(0.02)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(n) for n in f.read().split()]


class Server:
    user = None  # mallow is to be this one, too; None: whoever runs the bench

    def __init__(self, build, folder):
        self.build, self.folder, self.port = build, folder, free_port()
        self.process, self.connections = None, {}

    def start(self, *argv, **more):
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, cwd=self.folder, **more)
        self.pid = self.process.pid

    def __enter__(self):
        self.begin()
        wait_for(lambda: self.ask(1), type(self).__name__)
        return self

    def __exit__(self, *_):
        for connection in self.connections.values():
            connection.close()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)


class Http(Server):
    def path(self, n):
        return f"/{n}"

    def ask(self, n, client=0):
        """By one connection that stays, for each client."""
        if client not in self.connections:
            self.connections[client] = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                self.connections[client].connect()
            except OSError:
                del self.connections[client]
                raise
            self.connections[client].sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections[client].request("GET", self.path(n))
        return self.connections[client].getresponse().read()


class Nginx(Http):
    """A worker that makes each page of two files (SSI) and packs it."""

    def begin(self):
        root = os.path.join(self.folder, "www")
        os.makedirs(root)
        for name, text in (("a", "a line of text\n" * 200), ("b", "another line\n" * 300)):
            with open(os.path.join(root, name + ".txt"), "w", encoding="ascii") as f:
                f.write(text)
        with open(os.path.join(root, "page.html"), "w", encoding="ascii") as f:
            f.write('<html><!--#include virtual="/a.txt" --><!--#echo var="arg_n" --><!--#include virtual="/b.txt" --></html>\n')
        own = f"user {pwd.getpwuid(os.geteuid()).pw_name};" if os.geteuid() == 0 else ""
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="ascii") as f:
            f.write(f"""{own} worker_processes 1; daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log;
                events {{ }}
                http {{ access_log off; client_body_temp_path {self.folder}/t1; proxy_temp_path {self.folder}/t2;
                    fastcgi_temp_path {self.folder}/t3; uwsgi_temp_path {self.folder}/t4; scgi_temp_path {self.folder}/t5;
                    keepalive_requests 100000000; gzip on; gzip_types text/html; default_type text/html;
                    server {{ listen 127.0.0.1:{self.port}; root {root}; ssi on; }} }}\n""")
        self.start(find("nginx", "nginx"), "-p", self.folder, "-c", os.path.join(self.folder, "nginx.conf"))
        self.pid, = wait_for(lambda: children(self.process.pid), "nginx's worker")

    def path(self, n):
        return f"/page.html?n={n}"


class Node(Http):
    def begin(self):
        script = os.path.join(self.folder, "server.js")
        with open(script, "w", encoding="ascii") as f:
            f.write("""const http = require('http'), crypto = require('crypto'), zlib = require('zlib');
                http.createServer((q, a) => {
                    const n = parseInt(q.url.slice(1)), parts = [];
                    for (let i = 0; i < 40; i++) parts.push(Buffer.alloc(3000 + i * 10, 'text ' + (n * i)));
                    const all = Buffer.concat(parts);
                    const body = n + ' ' + crypto.createHash('sha256').update(all).digest('hex') + ' ' + zlib.deflateSync(all).length;
                    a.writeHead(200, {'Content-Length': body.length}); a.end(body);
                }).listen(parseInt(process.argv[2]), '127.0.0.1');""")
        self.start(find("node", "nodejs"), script, self.port)


class Python(Http):
    def begin(self):
        script = os.path.join(self.folder, "server.py")
        with open(script, "w", encoding="ascii") as f:
            f.write("""import hashlib, http.server, json, sys, zlib
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        n = int(self.path[1:])
        table = [{'number': i * n, 'text': 'text %d ' % (i * n) * 20} for i in range(150)]
        text = json.dumps(table).encode()
        body = b'%d %s %d' % (n, hashlib.sha256(text).hexdigest().encode(), len(zlib.compress(text, 1)))
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def date_time_string(self, timestamp=None):
        return 'always'
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answers).serve_forever()
""")
        self.start("/usr/bin/python3", script, self.port)


class Cxx(Http):
    """Threads, strings, maps, and an exception in every third request."""

    def begin(self):
        self.start(os.path.join(self.build, "bench", "serving"), self.port)


class Rust(Http):
    """Threads, strings, maps, and a caught panic in every ninth request."""

    def begin(self):
        program = os.path.join(self.build, "bench", "serving-rs")
        source = os.path.join(HERE, "workload", "serving.rs")
        if not os.path.exists(program) or os.stat(program).st_mtime < os.stat(source).st_mtime:
            subprocess.run([find("rustc", "rustc"), "-O", "-g", "-o", program, source], check=True, capture_output=True)
        self.start(program, self.port)


class Postgres(Server):
    """One session's backend, which is attached to in the middle of its queries."""

    def begin(self):
        initdb = next((os.path.join("/usr/lib/postgresql", v, "bin", "initdb")
                       for v in sorted(os.listdir("/usr/lib/postgresql"), reverse=True)), None) \
            if os.path.isdir("/usr/lib/postgresql") else None
        if not initdb:
            raise Missing("postgresql is not installed (apt-get install postgresql)")
        if os.geteuid() == 0:
            self.user = "postgres"
            os.chmod(self.folder, 0o755)
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, pwd.getpwnam("postgres").pw_gid)
        data = os.path.join(self.folder, "data")
        subprocess.run([initdb, "-D", data, "-A", "trust", "-N"], check=True, capture_output=True, user=self.user, cwd=self.folder)
        self.start(initdb.replace("initdb", "postgres"), "-D", data, "-k", self.folder, "-p", self.port, "-c", "listen_addresses=",
                   "-c", "fsync=off", "-c", "jit=off", user=self.user)
        wait_for(lambda: os.path.exists(os.path.join(self.folder, f".s.PGSQL.{self.port}")), "postgres's socket")
        psql = [find("psql", "postgresql-client"), "-XqAt", "-h", self.folder, "-p", str(self.port), "-U", self.user or
                pwd.getpwuid(os.geteuid()).pw_name, "postgres"]

        def ready():
            return subprocess.run([*psql, "-c", "select 1"], capture_output=True, check=False).stdout == b"1\n"
        wait_for(ready, "postgres")
        self.session = subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pid = int(self.query("select pg_backend_pid();"))

    def query(self, text):
        self.session.stdin.write(text.encode() + b"\n")
        self.session.stdin.flush()
        return self.session.stdout.readline().strip()

    def ask(self, n, client=0):
        """A hash join with sorting and aggregation: its memory comes and goes in blocks of 8 KB and more."""
        return self.query(f"with a as (select i, md5((i * {n % 1000})::text) t from generate_series(1, 1500) i), "
                          "b as (select i * 3 as i, repeat('x', i % 50) u from generate_series(1, 500) i) "
                          "select md5(string_agg(a.t || b.u, ',' order by a.t)) from a join b using (i);")

    def __exit__(self, *_):
        if hasattr(self, "session"):
            self.session.stdin.close()
            self.session.wait(30)
            self.session.stdout.close()
        super().__exit__()


class Redis(Server):
    """Debian's, whose allocator is jemalloc."""

    def begin(self):
        self.start(find("redis-server", "redis-server"), "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--dir",
                   self.folder)

    def command(self, connection, *words):
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        got = b""
        while True:
            got += connection.recv(65536)
            head, _, rest = got.partition(b"\r\n")
            if head[:1] in b"+:-" and got.endswith(b"\r\n"):
                return head
            if head[:1] == b"$" and len(rest) >= int(head[1:]) + 2:
                return rest[:int(head[1:])]

    def ask(self, n, client=0):
        if client not in self.connections:
            self.connections[client] = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        c, key = self.connections[client], b"key%d" % (n % 5000)
        self.command(c, b"SET", key, b"value %d " % n * 40)
        return self.command(c, b"GET", key)


ALL = {"redis": Redis, "postgres": Postgres, "nginx": Nginx, "node": Node, "python": Python, "C++": Cxx, "Rust": Rust}


def folder_for(name):
    return tempfile.TemporaryDirectory(prefix=f"mallow-bench-{name.strip('+').lower()}-")
