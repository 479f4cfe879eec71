"""A server of HTTP that answers every request in one bad way."""
import contextlib
import socket
import threading
import time

OK = b"HTTP/1.1 200 OK\r\n"
LONG = b"x" * 65536


def endless_body(s):
    s.sendall(OK + b"Content-Type: text/plain\r\n\r\n")
    while True:
        s.sendall(LONG)


def endless_chunks(s):
    s.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        s.sendall(b"10000\r\n" + LONG + b"\r\n")


def endless_headers(s):
    s.sendall(OK)
    while True:
        s.sendall(b"X-More: " + LONG[:1000] + b"\r\n")


def endless_header(s):
    s.sendall(OK + b"X-More: ")
    while True:
        s.sendall(LONG)


def endless_continues(s):
    while True:
        s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def packed_body(s):
    """gzip, which nobody asked for."""
    s.sendall(OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        s.sendall(b"10000\r\n" + LONG + b"\r\n")


def huge_length(s):
    s.sendall(OK + b"Content-Length: 9000000000000000000\r\n\r\nMLW")
    while True:
        s.sendall(LONG)


def slow_body(s):
    s.sendall(OK + b"Content-Length: 1000000\r\n\r\n")
    while True:
        s.sendall(b"x")
        time.sleep(0.2)


def nothing(s):
    while s.recv(65536):
        pass


QUICK = (endless_body, endless_chunks, endless_headers, endless_header, endless_continues, packed_body, huge_length)
SLOW = (slow_body, nothing)


class Server:
    """With `with`: its `url` answers so. What it sent in all is of no interest: it sends as long as somebody reads."""

    def __init__(self, answer):
        self.answer, self.ends = answer, False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.accept)]
        self.clients = []

    def accept(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            self.clients.append(client)
            self.threads.append(threading.Thread(target=self.serve, args=(client,)))
            self.threads[-1].start()

    def serve(self, client):
        with contextlib.suppress(OSError), client:
            client.settimeout(60)
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65536)
                if not more:
                    return
                head += more
            threading.Thread(target=self.drain, args=(client,), daemon=True).start()
            self.answer(client)

    @staticmethod
    def drain(client):
        with contextlib.suppress(OSError):
            while client.recv(65536):
                pass

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(60)
