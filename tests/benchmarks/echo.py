"""Time from a keystroke to its echo in a terminal, compared with terminado's WebSocket."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tornado.ioloop
import tornado.websocket

from sbx_jupyter.protocol import connect
from tests.benchmarks.harness import RawConnection, report
from tests.benchmarks.transfer import wait_for_port

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

ROUNDS = 500
PORT = 47613

TERMINADO = """
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


def run(engine: EngineClient) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "server.py")
        script.write_text(TERMINADO)
        server = subprocess.Popen([sys.executable, str(script), str(PORT)])
        try:
            wait_for_port(PORT)
            theirs = tornado.ioloop.IOLoop.current().run_sync(echo_terminado)
        finally:
            server.terminate()
            server.wait(10)
    single, streamed = echo_ours(engine)
    report("terminado", theirs)
    report("StreamInput and Start stream", streamed, theirs)
    report("SendInput and Start stream", single, theirs)


def echo_ours(engine: EngineClient) -> tuple[list[float], list[float]]:
    """Seconds per key, with one request per key and with one stream for all keys."""
    message = {"process": {"cmd": "/bin/cat"}, "pty": {"size": {"cols": 80, "rows": 24}}}
    single: list[float] = []
    streamed: list[float] = []
    with (
        engine.sandbox() as sandbox,
        engine.stream(sandbox, "process.Process/Start", message) as events,
    ):
        pid = json.loads(next(events)[1])["event"]["start"]["pid"]
        key = {"process": {"pid": pid}, "input": {"pty": base64.b64encode(b"x").decode()}}
        for _ in range(ROUNDS):
            started = time.perf_counter()
            engine.unary(sandbox, "process.Process/SendInput", key)
            next(events)
            single.append(time.perf_counter() - started)
            time.sleep(0.002)

        upload = RawConnection(engine.url)
        headers = {
            **engine.headers(sandbox),
            "content-type": connect.STREAM_CONTENT_TYPE,
            "transfer-encoding": "chunked",
        }
        upload.send_head("POST", "/process.Process/StreamInput", headers, None)
        upload.socket.sendall(chunk({"start": {"process": {"pid": pid}}}))
        data = chunk({"data": {"input": key["input"]}})
        for _ in range(ROUNDS):
            started = time.perf_counter()
            upload.socket.sendall(data)
            next(events)
            streamed.append(time.perf_counter() - started)
            time.sleep(0.002)
        upload.close()
    return single, streamed


def chunk(message: dict[str, Any]) -> bytes:
    """Encode a message of a client stream as a chunk of the request body."""
    envelope = connect.encode_envelope(json.dumps(message).encode())
    return b"%x\r\n%b\r\n" % (len(envelope), envelope)


async def echo_terminado() -> list[float]:
    waits: list[float] = []
    connection = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{PORT}/ws")
    await connection.read_message()
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await connection.write_message(json.dumps(["stdin", "x"]))
        await connection.read_message()
        waits.append(time.perf_counter() - started)
        time.sleep(0.002)
    connection.close()
    return waits
