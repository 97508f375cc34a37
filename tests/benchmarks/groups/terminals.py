"""Echo of a key in a terminal, beside the terminals of Jupyter."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tornado.websocket

from sbx_jupyter.protocol import connect
from tests.benchmarks import web_servers
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import ratio_to
from tests.benchmarks.harness import RawConnection, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

_TERMINADO: Final = """
import asyncio, sys
from terminado import SingleTermManager, TermSocket
from tornado.web import Application

async def main():
    manager = SingleTermManager(shell_command=["cat"])
    Application([("/ws", TermSocket, {"term_manager": manager})]).listen(
        int(sys.argv[1]), "127.0.0.1"
    )
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def _echoes(engine: EngineClient, *, streamed: bool) -> Iterator[Contestants]:
    message = {"process": {"cmd": "/bin/cat"}, "pty": {"size": {"cols": 80, "rows": 24}}}
    with (
        engine.sandbox() as sandbox,
        engine.stream(sandbox, "process.Process/Start", message) as events,
        contextlib.closing(RawConnection(engine.url)) as upload,
        _terminado() as theirs,
    ):
        process = {"pid": json.loads(next(events)[1])["event"]["start"]["pid"]}
        key = {"process": process, "input": {"pty": base64.b64encode(b"x").decode()}}
        data = _chunk({"data": {"input": key["input"]}})
        if streamed:
            headers = {
                **engine.headers(sandbox),
                "content-type": connect.STREAM_CONTENT_TYPE,
                "transfer-encoding": "chunked",
            }
            upload.send_head("POST", "/process.Process/StreamInput", headers, None)
            upload.socket.sendall(_chunk({"start": {"process": process}}))

        def press() -> None:
            if streamed:
                upload.socket.sendall(data)
            else:
                engine.unary(sandbox, "process.Process/SendInput", key)
            next(events)

        yield {OURS: lambda: timed(press), "terminado": theirs}


def _chunk(message: dict[str, Any]) -> bytes:
    """Encode a message of a client stream as a chunk of the request body."""
    envelope = connect.encode_envelope(json.dumps(message).encode())
    return b"%x\r\n%b\r\n" % (len(envelope), envelope)


@contextlib.contextmanager
def _terminado() -> Iterator[Callable[[], float]]:
    """The server of Jupyter's terminals, with a key pressed over its websocket."""
    (port,) = web_servers.free_ports(1)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        script = Path(folder, "server.py")
        script.write_text(_TERMINADO)
        with web_servers.process(sys.executable, str(script), str(port), port=port):
            connection = runner.run(_connected(f"ws://127.0.0.1:{port}/ws"))

            async def press() -> float:
                started = time.perf_counter()
                await connection.write_message(json.dumps(["stdin", "x"]))
                await connection.read_message()
                return time.perf_counter() - started

            yield lambda: runner.run(press())


async def _connected(url: str) -> Any:
    connection = await tornado.websocket.websocket_connect(url)
    await connection.read_message()
    return connection


ROWS: Final = (
    Row(
        "Echo of a key, a request per key",
        300,
        lambda engine: _echoes(engine, streamed=False),
        (ratio_to("terminado", 1.0),),
        "each key is an HTTP request with a token of its own to check, where terminado has an open"
        " websocket; JupyterLab's terminals use the stream of the next row with an engine here",
    ),
    Row(
        "Echo of a key, one stream",
        300,
        lambda engine: _echoes(engine, streamed=True),
        (ratio_to("terminado", 1.0),),
    ),
)
