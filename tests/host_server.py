"""A web server of the machine, which sandboxes try to reach."""

from __future__ import annotations

import contextlib
import http.server
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"host")

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextlib.contextmanager
def host_server() -> Iterator[int]:
    """The port of a server on the loopback, which answers ``host``."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
