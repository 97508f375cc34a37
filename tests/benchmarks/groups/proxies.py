"""Requests through the proxy of ports and through jupyter-server-proxy, in one Jupyter server.

Behind both is the same program: in a sandbox for ours, beside the server for theirs.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.benchmarks import library_peers
from tests.benchmarks.contests import MEGABYTES, OURS, Contestants, Row
from tests.benchmarks.goals import at_most, ratio_to
from tests.benchmarks.harness import RawConnection, resident_bytes, timed
from tests.benchmarks.web_servers import AUTHORIZATION, free_ports, jupyter_server, process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

THEIRS: Final = "jupyter-server-proxy"
DIRECT: Final = "no proxy"
PORT: Final = 8000
SIZES: Final = {"small": 100, "medium": 90_000_000, "large": 200_000_000}

PROGRAM: Final = """
import asyncio, sys
SIZES = {b"/small": 100, b"/medium": 90_000_000, b"/large": 200_000_000}
ZEROS = memoryview(bytes(1 << 20))

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            left = SIZES[head.split(b" ", 2)[1]]
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % left)
            while left:
                writer.write(ZEROS[:left])
                left -= len(ZEROS[:left])
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(main())
"""


class _Proxies(NamedTuple):
    """A Jupyter server with both proxies."""

    pid: int
    places: dict[str, tuple[str, str]]
    """By contestant, the address of the server and the path to the program."""


@contextlib.contextmanager
def _gets(engine: EngineClient, name: str) -> Iterator[Contestants]:
    with _proxies(engine) as proxies, contextlib.ExitStack() as stack:
        contestants: Contestants = {}
        for contestant, (url, path) in proxies.places.items():
            connection = stack.enter_context(contextlib.closing(RawConnection(url)))
            get = _get(connection, f"{path}/{name}", SIZES[name])
            if contestant == THEIRS and not _works(get):
                continue
            contestants[contestant] = get
        yield contestants


def _get(connection: RawConnection, path: str, size: int) -> Callable[[], float]:
    headers = {**AUTHORIZATION, "Accept-Encoding": "identity"}

    def get() -> None:
        connection.send_head("GET", path, headers, 0)
        status = connection.read_head()
        received = sum(len(piece) for piece in connection.pieces())
        if (status, received) != (200, size):
            raise RuntimeError(f"GET {path}: {status}, {received} bytes")

    return lambda: timed(get)


def _works(get: Callable[[], float]) -> bool:
    """Whether the peer answers: it may have a largest size."""
    try:
        get()
    except RuntimeError as error:
        print(f"  {THEIRS}: {error}", flush=True)
        return False
    return True


@contextlib.contextmanager
def _growth(engine: EngineClient) -> Iterator[Contestants]:
    """How much more memory the server has after a large answer."""
    with _proxies(engine) as proxies:
        url, path = proxies.places[OURS]
        with contextlib.closing(RawConnection(url)) as connection:
            _get(connection, f"{path}/small", SIZES["small"])()

            def grown() -> float:
                before = resident_bytes(proxies.pid)
                _get(connection, f"{path}/large", SIZES["large"])()
                return float(resident_bytes(proxies.pid) - before)

            yield {OURS: grown}


@contextlib.contextmanager
def _proxies(engine: EngineClient) -> Iterator[_Proxies]:
    library_peers.install()
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(PROGRAM)
        with contextlib.closing(RawConnection(engine.url)) as connection:
            headers = {**engine.headers(sandbox), "content-type": "application/octet-stream"}
            path = "/files?path=/tmp/program.py"
            status, answer = connection.request("POST", path, headers, PROGRAM.encode())
            if status != 200:
                raise RuntimeError(f"{status} {answer!r}")
        message = {"process": {"cmd": "/usr/bin/python3", "args": ["/tmp/program.py", str(PORT)]}}
        beside, server_port = free_ports(2)
        with (
            engine.stream(sandbox, "process.Process/Start", message) as events,
            process(library_peers.PYTHON, str(script), str(beside), port=beside),
            jupyter_server(
                engine, folder, server_port, python=library_peers.PYTHON, with_proxy=True
            ) as pid,
        ):
            next(events)
            server = f"http://127.0.0.1:{server_port}"
            yield _Proxies(
                pid,
                {
                    OURS: (server, f"/sbx/port/{sandbox['sandboxID']}/{PORT}"),
                    THEIRS: (server, f"/proxy/{beside}"),
                    DIRECT: (f"http://127.0.0.1:{beside}", ""),
                },
            )


ROWS: Final = (
    Row(
        "Small GET through Jupyter's server",
        300,
        lambda engine: _gets(engine, "small"),
        (ratio_to(THEIRS, 1.0),),
    ),
    Row(
        "GET of 90 MB through Jupyter's server",
        7,
        lambda engine: _gets(engine, "medium"),
        (ratio_to(THEIRS, 1.0),),
        warm_up=1,
    ),
    Row(
        "GET of 200 MB through Jupyter's server",
        5,
        lambda engine: _gets(engine, "large"),
        (ratio_to(THEIRS, 1.0),),
        warm_up=1,
    ),
    Row(
        "Memory that Jupyter's server takes more after 200 MB",
        3,
        _growth,
        (at_most(20e6, "20 MB"),),
        unit=MEGABYTES,
        warm_up=1,
    ),
)
