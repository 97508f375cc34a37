"""The engine's connection to its helper, whichever that is at the time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import SbxError, UnavailableError, see
from sbx_jupyter.isolation.channel import Channel, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.privileged.messages import Message
    from sbx_jupyter.isolation.privileged.supervisor import Supervisor

_log = logging.getLogger(__name__)

_NEW_HELPER: Final = 30.0
"""Seconds to wait for the next helper."""

_END_TIMEOUT: Final = 15.0
_ATTEMPTS: Final = 8


class HelperConnection:
    """Asks the helper; after its death, the next one that the supervisor starts."""

    def __init__(self, supervisor: Supervisor) -> None:
        """Take over a supervisor."""
        self._process, self._control = supervisor
        self._loop = asyncio.get_running_loop()
        self._channel: Channel | None = None
        self._is_connected = asyncio.Event()
        self._is_lost = asyncio.Event()
        self._is_closing = False
        self._is_last = False
        """Whether nobody is left who could start another helper."""
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._readable)

    async def call(
        self, message: Message, fds: Sequence[int] = (), timeout: float = 60
    ) -> tuple[dict[str, Any], list[int]]:
        """Ask and wait for the answer; its descriptors are the caller's, ``fds`` stay so.

        Raises ``OSError`` where the helper met one, the ``SbxError`` that it answered, and
        ``UnavailableError`` when it dies before it answers.
        """
        fields: dict[str, Any] = msgspec.to_builtins(message)
        channel = await self._connected()
        reply = await channel.call(fields.pop("op"), fds=fds, timeout=timeout, **fields)
        return _checked(reply)

    async def insist(self, message: Message, timeout: float = 60) -> dict[str, Any]:
        """Like ``call``, and ask the next helper when one dies before it answers.

        For messages without descriptors that do no harm when they are carried out twice. Raises
        ``UnavailableError`` when eight helpers died over it.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                return (await self.call(message, timeout=timeout))[0]
            except UnavailableError:
                if not left or self._is_closing or self._is_last:
                    raise
        raise AssertionError("unreachable")

    def ask(
        self, message: Message, fds: Sequence[int] = (), timeout: float = 60
    ) -> tuple[dict[str, Any], list[int]]:
        """Like ``call``, for threads: blocks."""
        asked = self.call(message, fds, timeout)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    async def aclose(self, message: Message) -> None:
        """End the helper by a last message, then its supervisor; waits for both."""
        self._is_closing = True
        if self._channel is not None:
            with contextlib.suppress(SbxError, OSError):
                await self.call(message, timeout=_END_TIMEOUT)
        if self._channel is not None:
            self._channel.close()
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        try:
            await asyncio.to_thread(self._process.wait, _END_TIMEOUT)
        except subprocess.TimeoutExpired:
            _log.warning("the helper of the engine does not end")

    async def restart(self, message: Message) -> None:
        """End the helper by a last message, so that the supervisor starts another."""
        if self._channel is not None:
            with contextlib.suppress(SbxError, OSError):
                await self.call(message, timeout=_END_TIMEOUT)
            async with asyncio.timeout(_END_TIMEOUT):
                await self._is_lost.wait()

    async def _connected(self) -> Channel:
        try:
            async with asyncio.timeout(_NEW_HELPER):
                await self._is_connected.wait()
        except TimeoutError:
            raise UnavailableError("the helper of the engine does not start") from None
        if self._channel is None and self._is_last:
            raise UnavailableError(
                f"the helper of the engine is gone for good: restart the engine{see('upgrade')}"
            )
        if self._channel is None:
            raise UnavailableError("the helper of the engine is gone")
        return self._channel

    def _readable(self) -> None:
        try:
            _, fds, _, _ = socket.recv_fds(self._control, 64, 1)
        except BlockingIOError:
            return
        except OSError:
            fds = []
        if not fds:
            self._loop.remove_reader(self._control)
            self._is_last = True
            self._is_connected.set()  # who waits for another helper waits in vain
            if not self._is_closing:
                _log.error(
                    "the supervisor of the engine's helper is gone: restart the engine soon%s",
                    see("upgrade"),
                )
            return
        os.set_inheritable(fds[0], False)
        if self._channel is not None:
            self._channel.close()
        sock = socket.socket(fileno=fds[0])
        self._channel = Channel(sock, on_event=_ignore, on_close=self._lost)
        self._is_lost.clear()
        self._is_connected.set()

    def _lost(self) -> None:
        self._channel = None
        self._is_lost.set()
        if self._is_last:
            return
        self._is_connected.clear()
        if not self._is_closing:
            _log.warning("the helper of the engine is gone; another one is started")


def _checked(reply: Reply) -> tuple[dict[str, Any], list[int]]:
    body = reply.body
    failed = body.get("failed")
    if failed is None:
        return body, reply.fds
    wire.close_all(reply.fds)
    number, text = cast("list[Any]", failed)
    raise OSError(number, text)


def _ignore(event: dict[str, Any], fds: list[int]) -> None:
    wire.close_all(fds)
