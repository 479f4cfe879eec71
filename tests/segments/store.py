"""A store of objects by HTTP: PUT, GET, HEAD, DELETE; with the signatures of S3, and with faults on demand.
By itself, a store that may be killed: store.py DIRECTORY PORT ACCESS:SECRET keeps its objects in files."""
import collections.abc
import datetime
import hashlib
import hmac
import http.server
import os
import sys
import tempfile
import threading
import urllib.parse


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def signature_fault(handler, body, keys, region):
    """Why the request is not signed as version 4 of the signature wants it; None: it is. Made from the public
    description alone: the canonical request, the text to sign, the derived key."""
    access, secret, token = keys
    said = handler.headers.get("Authorization", "")
    if not said.startswith("AWS4-HMAC-SHA256 "):
        return "no signature"
    fields = dict(part.strip().split("=", 1) for part in said.split(" ", 1)[1].split(","))
    date = handler.headers.get("X-Amz-Date", "")
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    if fields["Credential"] != f"{access}/{scope}":
        return "credential " + fields["Credential"]
    when = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) > 900:
        return "date " + date
    signed = fields["SignedHeaders"].split(";")
    if signed != sorted(signed) or not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed):
        return "signed headers " + fields["SignedHeaders"]
    if token and ("x-amz-security-token" not in signed or handler.headers["X-Amz-Security-Token"] != token):
        return "no token"
    if handler.headers["X-Amz-Content-Sha256"] != sha256(body):
        return "another body"
    parts = urllib.parse.urlsplit(handler.path)
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    lines = [handler.command, parts.path, query]
    lines += [f"{name}:{' '.join(handler.headers.get(name, '(none)').split())}" for name in signed]
    request = "\n".join([*lines, "", fields["SignedHeaders"], sha256(body)])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, sha256(request.encode())])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    wanted = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(wanted, fields["Signature"]) else "the signature is another"


class Files(collections.abc.MutableMapping):
    """Objects in a directory, each whole or not at all."""

    def __init__(self, directory):
        self.directory = directory

    def place(self, path):
        return os.path.join(self.directory, urllib.parse.unquote(path).strip("/"))

    def __getitem__(self, path):
        try:
            with open(self.place(path), "rb") as f:
                return f.read()
        except OSError as e:
            raise KeyError(path) from e

    def __setitem__(self, path, body):
        os.makedirs(os.path.dirname(self.place(path)), exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as f:
            f.write(body)
        os.rename(f.name, self.place(path))

    def __delitem__(self, path):
        os.unlink(self.place(path))

    def __contains__(self, path):
        return os.path.isfile(self.place(path))

    def __iter__(self):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def take(self):
        store = self.server.store
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # a client that was killed: no store keeps a part of an object
            return
        path = urllib.parse.urlsplit(self.path).path
        store.asked.append((self.command, path))
        store.headers.append(dict(self.headers.items()))
        if store.fault and store.fault(self, path, body):
            return
        if store.keys:
            fault = signature_fault(self, body, store.keys, store.region)
            if fault:
                store.faults.append(fault)
                self.answer(403, fault.encode())
                return
        if self.command == "PUT":
            status = 204 if path in store.objects else 201
            store.objects[path] = body
            self.answer(status)
        elif path not in store.objects:
            self.answer(404)
        elif self.command == "DELETE":
            del store.objects[path]
            self.answer(204)
        else:
            self.answer(200, store.objects[path])

    do_PUT = do_GET = do_HEAD = do_DELETE = take

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that goes is no fault
            super().handle_error(request, client_address)


class Store:
    """One on a loopback port; `fault(handler, path, body)` answers in its stead when it returns true."""

    def __init__(self, port=0, objects=None):
        self.objects = {} if objects is None else objects
        self.asked, self.headers, self.faults = [], [], []
        self.fault, self.keys, self.region = None, None, "us-east-1"
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.store = self
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def segments(self, below):
        return {p: b for p, b in self.objects.items() if p.startswith(below) and p.endswith(".seg")}


if __name__ == "__main__":
    files = Store(int(sys.argv[2]), Files(sys.argv[1]))
    files.keys = (*sys.argv[3].split(":"), "")
    files.thread.join()
