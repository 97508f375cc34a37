"""Requests and answers over a SEQPACKET socket, on the engine's event loop.

The framing is that of ``protocol/agent.py``. The peer may be hostile: messages and descriptors are
bounded, an answer without a waiting request is dropped with its descriptors, and the channel of a
peer that breaks the framing is closed.
"""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import os
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import (
    InvalidArgumentError,
    NoSpaceError,
    ResourceExhaustedError,
    UnavailableError,
    error_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

_MAX_OUTGOING: Final = 1024
"""Requests that may wait for a peer that does not read."""

_SUCCESS: Final = re.compile(rb'\{"id":([0-9]{1,18}),"ok":(?=\{)')

_BATCH: Final = 32
"""Messages that are read before other work of the loop gets its turn."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request; the descriptors belong to the caller."""

    raw: bytes
    """The JSON text, which the peer may have made anything of."""
    fds: list[int]

    @property
    def body(self) -> dict[str, Any]:
        """The answer as a dictionary; raises ``UnavailableError``, with the descriptors closed."""
        try:
            body = json.loads(self.raw)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            wire.close_all(self.fds)
            raise UnavailableError("an answer that makes no sense")
        return cast("dict[str, Any]", body)


@dataclass(slots=True)
class _Outgoing:
    request_id: int
    datagram: bytes
    fds: list[int]


class Channel:
    """One side of a conversation that asks; the zygote or an agent answers."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        on_event: Callable[[dict[str, Any], list[int]], None],
        on_close: Callable[[], None],
    ) -> None:
        """Take over ``sock``. ``on_event`` owns the descriptors that it is given."""
        self._sock = sock
        self._on_event = on_event
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._outgoing: collections.deque[_Outgoing] = collections.deque()
        self._last_id = 0
        self._writing = False
        self.closed = False
        sock.setblocking(False)
        self._loop.add_reader(sock, self._readable)

    async def call(
        self, op: str, *, fds: Sequence[int] = (), timeout: float = 30, **fields: Any
    ) -> Reply:
        """Ask and wait for the answer; ``fds`` stay the caller's.

        Raises the ``SbxError`` that the peer answered, ``UnavailableError`` when the channel is
        closed, is full or stays silent for ``timeout`` seconds, ``ResourceExhaustedError`` when the
        kernel has no room for ``fds``.
        """
        if self.closed or len(self._outgoing) >= _MAX_OUTGOING:
            raise UnavailableError(f"the sandbox does not take requests ({op})")
        self._last_id += 1
        request_id = self._last_id
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[request_id] = future
        try:
            self._send(request_id, {"id": request_id, "op": op, **fields}, fds)
            async with asyncio.timeout(timeout):
                return await future
        except BaseException as error:
            _drop(future)
            if isinstance(error, TimeoutError):
                raise UnavailableError(f"no answer within {timeout:g} s ({op})") from error
            raise
        finally:
            self._waiting.pop(request_id, None)

    def close(self) -> None:
        """Drop the channel; every waiting call fails with ``UnavailableError``."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock)
        if self._writing:
            self._loop.remove_writer(self._sock)
        self._sock.close()
        for message in self._outgoing:
            wire.close_all(message.fds)
        self._outgoing.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(UnavailableError("the sandbox is gone"))
        self._on_close()

    def drain(self) -> None:
        """Take the answers that have arrived, then drop the channel: the peer has ended."""
        while not self.closed:
            if not self._read_batch():
                self.close()

    def _send(self, request_id: int, body: dict[str, Any], fds: Sequence[int]) -> None:
        try:
            datagram, all_fds, memfd = wire.encode(body, fds)
        except wire.WireError as error:
            raise InvalidArgumentError(f"the request is too large: {error}") from error
        try:
            if not self._outgoing and self._try_send(datagram, all_fds):
                return
            # The caller may close its descriptors before the peer reads, so keep our own.
            self._outgoing.append(_Outgoing(request_id, datagram, [os.dup(fd) for fd in all_fds]))
        finally:
            if memfd is not None:
                os.close(memfd)
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._writable)

    def _try_send(self, datagram: bytes, fds: Sequence[int]) -> bool:
        try:
            self._sock.sendmsg([datagram], wire.rights(fds), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in wire.SHORTAGE:
                raise ResourceExhaustedError(f"cannot ask the sandbox: {error.strerror}") from error
            self.close()
            raise UnavailableError("the sandbox is gone") from error
        return True

    def _writable(self) -> None:
        while self._outgoing:
            message = self._outgoing[0]
            try:
                if not self._try_send(message.datagram, message.fds):
                    return
            except UnavailableError:
                return  # close() has told every waiting call
            except ResourceExhaustedError as error:
                self._settle(message.request_id, error)
            self._outgoing.popleft()
            wire.close_all(message.fds)
        self._writing = False
        self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        self._read_batch()

    def _read_batch(self) -> bool:
        """Take some messages; whether there may be more."""
        for _ in range(_BATCH):
            try:
                message = wire.receive_payload(self._sock)
            except BlockingIOError:
                return False
            except (OSError, wire.WireError) as error:
                logger.warning("a channel was dropped: %s", error)
                message = None
            if message is None:
                self.close()
                return False
            self._dispatch(*message)
            if self.closed:
                return False
        return True

    def _dispatch(self, payload: bytes, fds: list[int]) -> None:
        success = _SUCCESS.match(payload)
        if success is not None and payload.endswith(b"}"):
            # The caller parses the answer, not this loop: some answers have megabytes.
            self._settle(int(success[1]), Reply(payload[success.end() : -1], fds))
            return
        try:
            body = wire.parse(payload)
        except wire.WireError as error:
            wire.close_all(fds)
            logger.warning("a channel was dropped: %s", error)
            self.close()
            return
        if "event" in body:
            self._on_event(body, fds)
        elif isinstance(answer := body.get("ok"), dict):
            self._settle(body.get("id"), Reply(json.dumps(answer).encode(), fds))
        else:
            wire.close_all(fds)
            self._settle(body.get("id"), _failure(body.get("error")))

    def _settle(self, request_id: object, outcome: Reply | Exception) -> None:
        future = self._waiting.get(request_id) if isinstance(request_id, int) else None
        if future is None or future.done():
            if isinstance(outcome, Reply):
                wire.close_all(outcome.fds)
        elif isinstance(outcome, Reply):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)


def _failure(error: object) -> Exception:
    if not isinstance(error, dict):
        return UnavailableError("an answer that is neither success nor failure")
    described = cast("dict[str, object]", error)
    code, message = described.get("code"), described.get("message")
    if not isinstance(code, str) or not isinstance(message, str):
        return UnavailableError("a failure without code and message")
    if code == NoSpaceError.code and described.get("errno") in _NO_SPACE:
        return NoSpaceError(message)
    return error_for(code, message)


_NO_SPACE: Final = (28, 122)  # ENOSPC, EDQUOT


def _drop(future: asyncio.Future[Reply]) -> None:
    """Close the descriptors of an answer whose caller was cancelled or timed out meanwhile."""
    if future.done() and not future.cancelled() and future.exception() is None:
        wire.close_all(future.result().fds)
