"""The channels of one kernel, joined to one WebSocket.

Each binary message is one message of a channel, see ``frames``. A text message is a signal for the
kernel and all that it started, by its number.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
from typing import Any

from .backlog import MOST_AT_ONCE, Backlog, smaller
from .frames import CHANNELS, MAX_MESSAGE, pack, unpack
from .processes import exit_code, say, signal_group

TOKEN_HEADER = "X-Kernel-Token"
_GRACE = 0.2


class Guest:
    """The kernel's channels, and the one caller that is joined to them."""

    def __init__(self, connection: dict[str, Any], token: str) -> None:
        import zmq
        import zmq.asyncio

        self.token = token
        self._key = connection["key"].encode()
        self._context = zmq.asyncio.Context()
        self._sockets: list[Any] = []
        for name in CHANNELS:
            kind = zmq.SUB if name == "iopub" else zmq.DEALER
            channel = self._context.socket(kind)
            channel.linger = 0
            # The kernel binds a moment later.
            channel.reconnect_ivl = 10
            if kind == zmq.SUB:
                channel.subscribe(b"")
                channel.rcvhwm = 0  # the limit is the backlog's
            else:
                # The kernel sends a request for input to the one that sent the code.
                channel.identity = b"guest"
            channel.connect(_address(connection, connection[f"{name}_port"]))
            self._sockets.append(channel)
        self._backlog = Backlog(self._key)
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
        if CHANNELS[channel] == "iopub":
            await asyncio.gather(self._read_output(channel), self._pump_output(channel))
        while True:
            await self._joined.wait()
            frames: list[bytes] = await self._sockets[channel].recv_multipart()
            if sum(map(len, frames)) <= MAX_MESSAGE:
                await self._send(pack(channel, frames))

    async def _read_output(self, channel: int) -> None:
        while True:
            for _ in range(MOST_AT_ONCE):
                self._backlog.add(await self._sockets[channel].recv_multipart())
            # Messages that are there already are received without a wait.
            await asyncio.sleep(0)

    async def _pump_output(self, channel: int) -> None:
        while True:
            frames = await self._backlog.take()
            if sum(map(len, frames)) <= MAX_MESSAGE:
                await self._send(pack(channel, frames))
            else:
                for piece in smaller(frames, self._key):
                    await self._send(pack(channel, piece))

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


def _address(connection: dict[str, Any], port: int) -> str:
    colon = ":" if connection["transport"] == "tcp" else "-"
    return f"{connection['transport']}://{connection['ip']}{colon}{port}"


async def serve(request: dict[str, Any], kernel: int) -> int:
    """Serve the channels of a kernel until it ends; return its exit status."""
    import tornado.httpserver
    import tornado.netutil

    guest = Guest(request["connection"], request["token"])
    ended = asyncio.get_running_loop().create_future()
    _when_ended(kernel, ended)
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(_application(guest, kernel)).add_sockets(sockets)
    say(id=request["id"], port=sockets[0].getsockname()[1])
    pumps = [asyncio.create_task(guest.pump(number)) for number in range(len(CHANNELS))]
    status: int = await ended
    signal_group(kernel, signal.SIGKILL)
    # The last messages of the kernel are still in the queues.
    await asyncio.wait(pumps, timeout=_GRACE)
    return status


def _application(guest: Guest, kernel: int) -> Any:
    """The tornado application with the one route, to the channels of a kernel."""
    import tornado.web
    import tornado.websocket

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
                signal_group(kernel, int(message))

        def on_close(self) -> None:
            guest.leave(self)

    return tornado.web.Application(
        [("/channels", Channels)],
        websocket_max_message_size=2 * MAX_MESSAGE,
        websocket_ping_interval=20,
    )


def _when_ended(pid: int, ended: asyncio.Future[int]) -> None:
    """Set the result to the exit status of a child process when that ends."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(pid)

    def reap() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        ended.set_result(exit_code(status))

    loop.add_reader(descriptor, reap)
