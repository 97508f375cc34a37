"""The kernel's channels on this machine: sockets for Jupyter, joined to the guest."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import tornado.httpclient
import tornado.websocket
import zmq
import zmq.asyncio

from sbx_jupyter.client.connection import tls
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.kernel.guest.channels import TOKEN_HEADER
from sbx_jupyter.kernel.guest.frames import CHANNELS, MAX_MESSAGE, pack, unpack
from sbx_jupyter.kernel.messages import (
    DELIMITER,
    ForgedMessageError,
    Signer,
    direct_comm,
    execute_header,
    from_guest,
    named,
    new_header,
    to_guest,
)
from sbx_jupyter.kernel.output_limit import OutputLimit
from sbx_jupyter.kernel.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbx_jupyter.kernel.drawing import PageDrawing

_LOG: Final = logging.getLogger(__name__)
_HEARTBEAT: Final = "hb"
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 2.0
_CONNECT_TIMEOUT: Final = 10.0
_LARGE: Final = 4 * 1024
"""Bytes that may need long to check, such as Markdown that is all brackets: 0.1 ms for each two."""
_LONG: Final = 0.02
"""Seconds."""
_MOST_FRAMES: Final = 1024
_EACH_FRAME: Final = 512
"""Bytes that a buffer counts besides its own, since each costs time on every event loop."""
_MOST_BEAT: Final = 4 * 1024
_MOST_WAITING: Final = 20_000
"""Messages that wait for a slow reader, who gets no others; ``OutputLimit`` bounds their size."""
_LOST: Final = "\n[the last of the output is lost: it came faster than it was read]\n"
_NOT_JOINED: Final = (
    OSError,
    TimeoutError,
    tornado.httpclient.HTTPClientError,
    tornado.websocket.WebSocketError,
)


class Relay:
    """Carries messages between Jupyter's sockets and a guest; use it on one event loop.

    ``connection`` is the kernel's connection information on this machine, whose ``ip`` is a path;
    ``drawing`` knows the pages in which the kernel may draw; ``ca_file`` is the deployment's, as
    ``ConnectionConfig`` has it.
    """

    def __init__(
        self,
        connection: dict[str, Any],
        guest_key: bytes,
        drawing: PageDrawing,
        ca_file: str | None = None,
    ) -> None:
        self._drawing = drawing
        self._ca_file = ca_file
        key = connection["key"]
        self._ours = Signer(key if isinstance(key, bytes) else str(key).encode())
        self._theirs = Signer(guest_key)
        self._context = zmq.asyncio.Context()
        self._sockets = [self._bind(name, connection) for name in CHANNELS]
        self._guest: tornado.websocket.WebSocketClientConnection | None = None
        self._joined = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._limit = OutputLimit()
        self._unfinished = Unfinished()
        self._asked = b"{}"
        """The header of the last request to run code."""
        self.dropped = 0
        """Messages of the guest that were forged or malformed."""

    def start(self, url: Callable[[], tuple[str, dict[str, str]]], token: str) -> None:
        """Join the guest, again after each lost connection; ``url`` gives address and headers."""
        loop = asyncio.get_running_loop()
        works = [self._pump(number) for number in range(len(CHANNELS))]
        works += [self._stay_joined(url, token), self._end_requests()]
        self._tasks = [loop.create_task(work) for work in works]
        for task in self._tasks:
            task.add_done_callback(_log_failure)

    async def joined(self, timeout: float) -> None:
        """Wait until the guest is joined. Raises ``UnavailableError`` after ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._joined.wait()
        except TimeoutError:
            raise UnavailableError("the sandbox's port cannot be reached from here") from None

    async def signal(self, number: int) -> None:
        """Send a signal to the kernel and all that it started; nothing while not joined."""
        if self._guest is not None:
            with contextlib.suppress(tornado.websocket.WebSocketClosedError):
                await self._guest.write_message(str(number))

    async def say(self, text: str) -> None:
        """Print a line of our own below the cell that runs, or ran last."""
        await self._publish("stream", {"name": "stderr", "text": text})

    async def tell(self, comm_id: str, data: dict[str, Any]) -> None:
        """Send our front end a message on a comm of ours, which all others ignore."""
        await self._publish("comm_msg", {"comm_id": comm_id, "data": data})

    async def _publish(
        self, kind: str, content: dict[str, Any], parent: bytes | None = None
    ) -> None:
        parent = self._asked if parent is None else parent
        parts = [new_header(kind), parent, b"{}", json.dumps(content).encode()]
        frames = [kind.encode(), DELIMITER, self._ours.sign(parts), *parts]
        await self._sockets[CHANNELS.index("iopub")].send_multipart(frames)  # pyright: ignore[reportUnknownMemberType] - zmq's

    async def aclose(self) -> None:
        """Close the sockets and the connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._leave()
        self._context.destroy(linger=0)

    async def _end_requests(self) -> None:
        """Report the kernel as idle for requests whose reply came but whose idle status is lost."""
        while True:
            for request in await self._unfinished.overdue():
                await self._publish("stream", {"name": "stderr", "text": _LOST}, request)
                await self._publish("status", {"execution_state": "idle"}, request)

    def _bind(self, name: str, connection: dict[str, Any]) -> zmq.asyncio.Socket:
        channel = self._context.socket(zmq.PUB if name == "iopub" else zmq.ROUTER)
        channel.linger = 0
        channel.sndhwm = _MOST_WAITING
        channel.bind(f"ipc://{connection['ip']}-{connection[f'{name}_port']}")
        return channel

    async def _pump(self, number: int) -> None:
        """Carry one channel's messages to the guest, for ever."""
        name = CHANNELS[number]
        if name == "iopub":
            return  # nothing goes this way
        while True:
            frames: list[bytes] = await self._sockets[number].recv_multipart()
            if name != _HEARTBEAT:
                try:
                    if name == "shell" and (header := execute_header(frames)) is not None:
                        self._asked = header
                        self._limit.begin(header)
                    frames = to_guest(frames, self._ours, self._theirs)
                except ForgedMessageError as error:
                    _LOG.warning("a message for the kernel is left out: %s", error)
                    continue
            await self._send(pack(number, frames))

    async def _send(self, raw: bytes) -> None:
        while True:
            await self._joined.wait()
            if (guest := self._guest) is None:
                continue
            try:
                await guest.write_message(raw, binary=True)
                return
            except tornado.websocket.WebSocketClosedError:
                self._leave()

    async def _stay_joined(self, url: Callable[[], tuple[str, dict[str, str]]], token: str) -> None:
        delay = _FIRST_DELAY
        while True:
            try:
                guest = await connect(*url(), token, self._ca_file)
            except _NOT_JOINED as error:
                _LOG.debug("the kernel's sandbox cannot be reached yet: %s", error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)
                continue
            delay = _FIRST_DELAY
            self._guest = guest
            self._unfinished.resume()
            self._joined.set()
            while (raw := await guest.read_message()) is not None:
                await self._receive(raw)
            self._leave()

    async def _receive(self, raw: str | bytes) -> None:
        """Pass a message of the guest on to Jupyter, as far as it is harmless."""
        try:
            raw = raw if isinstance(raw, bytes) else raw.encode()
            number, frames = unpack(raw, _MOST_FRAMES)
            name = CHANNELS[number]
            for message in await self._check(name, frames, len(raw)):
                if name != "iopub" and not self._limit.passes_reply(sum(map(len, message))):
                    self.dropped += 1
                    continue
                self._note(name, message)
                for each in self._limited(message) if name == "iopub" else (message,):
                    await self._sockets[number].send_multipart(each)  # pyright: ignore[reportUnknownMemberType] - zmq's
        except (ForgedMessageError, ValueError) as error:
            self.dropped += 1
            _LOG.debug("a message of a sandboxed kernel is left out: %s", error)
        except Exception:
            # Whatever a hostile kernel finds to send, its channels go on. Said once, since such
            # messages could fill the log.
            level = logging.DEBUG if self.dropped else logging.ERROR
            self.dropped += 1
            _LOG.log(level, "a message of a sandboxed kernel cannot be checked", exc_info=True)

    async def _check(self, name: str, frames: list[bytes], size: int) -> list[list[bytes]]:
        """``_checked``, such that neither one message nor many hold up the other kernels for long.

        Raises ``ForgedMessageError``.
        """
        begun = time.monotonic()
        try:
            check = functools.partial(self._checked, name, frames)
            return await asyncio.to_thread(check) if size > _LARGE else check()
        finally:
            if (spent := time.monotonic() - begun) > _LONG:
                await asyncio.sleep(spent)

    def _checked(self, name: str, frames: list[bytes]) -> list[list[bytes]]:
        """The messages to pass on for one of the guest: at most one for all and one for some pages.

        Raises ``ForgedMessageError``.
        """
        if name == _HEARTBEAT:
            return [frames] if frames and sum(map(_counted, frames)) <= _MOST_BEAT else []
        found = [from_guest(name, frames, self._theirs, self._ours, self._drawing)]
        if name == "iopub" and self._drawing.marks():
            found.append(direct_comm(frames, self._theirs, self._ours, self._drawing))
        return [message for message in found if message is not None]

    def _note(self, name: str, frames: list[bytes]) -> None:
        """Note what a checked message says about the end of a request."""
        if name not in ("shell", "iopub"):
            return
        at = frames.index(DELIMITER) + 2
        header, parent, _, content = frames[at : at + 4]
        if name == "shell":
            self._unfinished.replied(header, parent)
        else:
            is_status = named(header).msg_type == "status"
            self._unfinished.heard(parent, content, is_status=is_status)

    def _limited(self, frames: list[bytes]) -> Iterator[list[bytes]]:
        """Hold a checked message of the output channel to the limits of what one cell may show."""
        at = frames.index(DELIMITER) + 2
        header, parent, metadata, content = frames[at : at + 4]
        beside = sum(map(_counted, frames[at + 4 :]))
        for kind, passed in self._limit.passed(header, parent, content, beside):
            if passed is content:
                yield frames
            else:
                parts = [new_header(kind), parent, metadata, passed]
                yield [kind.encode(), DELIMITER, self._ours.sign(parts), *parts]

    def _leave(self) -> None:
        self._joined.clear()
        self._unfinished.suspend()
        if self._guest is not None:
            self._guest.close()
            self._guest = None


def _counted(frame: bytes) -> int:
    return len(frame) + _EACH_FRAME


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("the channels of a sandboxed kernel are broken", exc_info=error)


async def connect(
    url: str, headers: dict[str, str], token: str, ca_file: str | None
) -> tornado.websocket.WebSocketClientConnection:
    """Open the WebSocket of a guest. Raises one of ``_NOT_JOINED``."""
    ssl_options = tls.create_context(ca_file) if url.startswith("https:") else None
    request = tornado.httpclient.HTTPRequest(
        f"{url.replace('http', 'ws', 1)}/channels",
        headers={**headers, TOKEN_HEADER: token},
        connect_timeout=_CONNECT_TIMEOUT,
        request_timeout=_CONNECT_TIMEOUT,
        ssl_options=ssl_options,
    )
    return await tornado.websocket.websocket_connect(
        request, max_message_size=2 * MAX_MESSAGE, ping_interval=20
    )
