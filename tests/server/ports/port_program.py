"""A program for the port of a sandbox: echoes, streams, counts, and answers as a hostile one would.

It runs inside the sandbox with nothing but the standard library.
"""

import base64
import hashlib
import json
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

HOSTILE = {
    "Set-Cookie": "username-localhost-8888=stolen; Path=/",
    "Clear-Site-Data": '"cookies"',
    "WWW-Authenticate": "Basic realm=jupyter",
    "Service-Worker-Allowed": "/",
    "Strict-Transport-Security": "max-age=31536000",
    "Accept-CH": "Sec-CH-UA-Full-Version-List",
    "Use-As-Dictionary": 'match="/*"',
    "Secure-Session-Registration": '(ES256);path="/start"',
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src *",
}


class Program(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    sending = 0
    silent = 0

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/never":
            self.never_answer()
        elif self.headers.get("Upgrade") == "websocket":
            self.echo_socket()
        elif path == "/events":
            self.events()
        elif path == "/redirect":
            self.answer(302, b"", {"Location": self.path.partition("?")[2]})
        elif path == "/hostile":
            self.answer(200, b"<h1>hi</h1>", HOSTILE | {"Content-Type": "text/html"})
        elif path == "/big":
            self.big(int(self.path.partition("?")[2]))
        elif path == "/connection":
            self.answer(200, b"%d" % self.client_address[1])
        elif path == "/leave":
            self.answer(200, b"I close without a word")
            self.close_connection = True
        elif path == "/sending":
            self.answer(200, b"%d" % Program.sending)
        elif path == "/silent":
            self.answer(200, b"%d" % Program.silent)
        elif path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
            self.close_connection = True
        elif path == "/header":
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * int(self.path.partition("?")[2])
            )
            self.wfile.write(b"\r\nContent-Length: 0\r\n\r\n")
        elif path == "/chunks":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbad\r\n")
            self.close_connection = True
        else:
            self.echo()

    def do_POST(self):
        size = 0
        digest = hashlib.sha256()
        while piece := self.read_body():
            size += len(piece)
            digest.update(piece)
        self.answer(200, json.dumps({"size": size, "sha256": digest.hexdigest()}).encode())

    do_PUT = do_PATCH = do_POST
    do_DELETE = do_OPTIONS = do_HEAD = do_GET

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            size = int(self.rfile.readline(), 16)
            piece = self.rfile.read(size)
            self.rfile.readline()
            return piece
        left = getattr(self, "left", int(self.headers.get("Content-Length", 0)))
        piece = self.rfile.read(min(left, 65536))
        self.left = left - len(piece)
        return piece

    def echo(self):
        told = {"method": self.command, "path": self.path, "headers": self.headers.items()}
        self.answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(1000):
            self.wfile.write(b"data: %d\n\n" % number)
            self.wfile.flush()
            time.sleep(0.2)

    def big(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = bytes(1024 * 1024)
        Program.sending += 1
        try:
            while size > 0:
                size -= self.wfile.write(piece[:size])
        finally:
            Program.sending -= 1

    def never_answer(self):
        Program.silent += 1
        try:
            self.rfile.read()
        finally:
            Program.silent -= 1
        self.close_connection = True

    def echo_socket(self):
        key = self.headers["Sec-WebSocket-Key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            size = head[1] & 127
            if size == 126:
                size = int.from_bytes(self.rfile.read(2), "big")
            elif size == 127:
                size = int.from_bytes(self.rfile.read(8), "big")
            mask = self.rfile.read(4)
            masked = self.rfile.read(size)
            key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
            plain = (int.from_bytes(masked, "big") ^ key).to_bytes(size, "big")
            origin = self.headers.get("Origin", "").encode()
            plain = origin if plain == b"origin?" else plain
            long = b"\x7f" + len(plain).to_bytes(8, "big")
            self.wfile.write(bytes([head[0]]) + long + plain)

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format, *args):
        pass


if __name__ == "__main__":
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    socketserver.TCPServer.request_queue_size = 64
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Program).serve_forever()
