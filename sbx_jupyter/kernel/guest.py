"""Runs inside a sandbox: starts a kernel and joins its channels to one WebSocket.

Called as ``python guest.py FOLDER PROGRAM...``. ``FOLDER/connection.json`` is the kernel's
connection file and ``FOLDER/token`` the word that a caller must know. The first line of the output
is a JSON object: ``{"port"}`` when it listens, ``{"error"}`` when it cannot. It ends when the
kernel ends, with the same exit status.

Each binary WebSocket message is one message of a channel: a byte with the number of the channel in
``CHANNELS``, then every frame with its length in four bytes before it. A text message is a signal
for the kernel and all that it started, by its number.

This file imports nothing of its package, since only its text is sent into the sandbox.
"""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import importlib.util
import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")
TOKEN_HEADER = "X-Kernel-Token"
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes; a larger message of the kernel is dropped here and never leaves the sandbox."""

_LENGTH = struct.Struct(">I")
_GRACE = 0.2
_PR_SET_PDEATHSIG = 1


def pack(channel: int, frames: list[bytes]) -> bytes:
    """One message of a channel as bytes."""
    parts = [bytes([channel])]
    for frame in frames:
        parts += (_LENGTH.pack(len(frame)), frame)
    return b"".join(parts)


def unpack(raw: bytes) -> tuple[int, list[bytes]]:
    """The channel and the frames of a message. Raises ``ValueError`` for anything else."""
    if not raw or raw[0] >= len(CHANNELS):
        raise ValueError("not a message of a channel")
    frames: list[bytes] = []
    at = 1
    while at < len(raw):
        if at + _LENGTH.size > len(raw):
            raise ValueError("a length is cut")
        (size,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if at + size > len(raw):
            raise ValueError("a frame is cut")
        frames.append(raw[at : at + size])
        at += size
    return raw[0], frames


class Guest:
    """The kernel's channels, and the one caller that is joined to them."""

    def __init__(self, folder: Path) -> None:
        import zmq
        import zmq.asyncio

        self.token = (folder / "token").read_text()
        connection: dict[str, Any] = json.loads((folder / "connection.json").read_text())
        self._context = zmq.asyncio.Context()
        self._sockets: list[Any] = []
        for name in CHANNELS:
            kind = zmq.SUB if name == "iopub" else zmq.DEALER
            channel = self._context.socket(kind)
            channel.linger = 0
            if kind == zmq.SUB:
                channel.subscribe(b"")
            else:
                # The kernel sends a request for input to the one that sent the code.
                channel.identity = b"guest"
            channel.connect(f"ipc://{connection['ip']}-{connection[f'{name}_port']}")
            self._sockets.append(channel)
        self.caller: Any = None
        self._joined = asyncio.Event()

    def join(self, caller: Any) -> None:
        """Send everything to this caller from now on; an earlier one is left."""
        if self.caller is not None:
            self.caller.close()
        self.caller = caller
        self._joined.set()

    def leave(self, caller: Any) -> None:
        """Keep what the kernel sends until somebody joins again, as far as its queues reach."""
        if self.caller is caller:
            self.caller = None
            self._joined.clear()

    async def forward(self, raw: bytes) -> None:
        """Pass a message of the caller on to the kernel."""
        channel, frames = unpack(raw)
        await self._sockets[channel].send_multipart(frames)

    async def pump(self, channel: int) -> None:
        """Pass the messages of one channel on to the caller, for ever."""
        while True:
            await self._joined.wait()
            frames: list[bytes] = await self._sockets[channel].recv_multipart()
            if sum(map(len, frames)) > MAX_MESSAGE:
                continue
            await self._send(pack(channel, frames))

    async def _send(self, raw: bytes) -> None:
        from tornado.websocket import WebSocketClosedError

        while True:
            await self._joined.wait()
            caller = self.caller
            try:
                await caller.write_message(raw, binary=True)
                return
            except WebSocketClosedError:
                self.leave(caller)


async def serve(folder: Path, program: list[str]) -> int:
    """Run the kernel and serve its channels; return its exit status."""
    import tornado.httpserver
    import tornado.netutil
    import tornado.web
    import tornado.websocket

    guest = Guest(folder)
    process = await asyncio.create_subprocess_exec(
        *program,
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )

    class Channels(tornado.websocket.WebSocketHandler):
        def prepare(self) -> None:
            given = self.request.headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(given.encode(), guest.token.encode()):
                raise tornado.web.HTTPError(403)

        def check_origin(self, origin: str) -> bool:
            return False  # no page has any business here

        def open(self, *args: str, **kwargs: str) -> None:
            self.set_nodelay(True)
            guest.join(self)

        async def on_message(self, message: str | bytes) -> None:
            if isinstance(message, bytes):
                await guest.forward(message)
            elif message.isdecimal():
                _signal(process.pid, int(message))

        def on_close(self) -> None:
            guest.leave(self)

    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    application = tornado.web.Application(
        [("/channels", Channels)],
        websocket_max_message_size=2 * MAX_MESSAGE,
        websocket_ping_interval=20,
    )
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    print(json.dumps({"port": sockets[0].getsockname()[1]}), flush=True)
    pumps = [asyncio.create_task(guest.pump(number)) for number in range(len(CHANNELS))]
    status = await process.wait()
    _signal(process.pid, signal.SIGKILL)
    # What the kernel said last is still in the queues.
    await asyncio.wait(pumps, timeout=_GRACE)
    return status if status >= 0 else 128 - status


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def main() -> None:
    folder, *program = sys.argv[1:]
    for needed in ("tornado", "zmq"):
        if importlib.util.find_spec(needed) is None:
            print(json.dumps({"error": f"the sandbox's Python lacks {needed}"}), flush=True)
            sys.exit(1)
    sys.exit(asyncio.run(serve(Path(folder), program)))


if __name__ == "__main__":
    main()
