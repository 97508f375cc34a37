"""Server-sent events about changes: an addition to the platform API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from tornado.iostream import StreamClosedError

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.errors import UnauthenticatedError
from sbx_jupyter.service.platform.platform_handler import PlatformHandler

if TYPE_CHECKING:
    from sbx_jupyter.service.changes import ChangeStream

KEEPALIVE: Final = 15.0
"""Seconds between two comments, by which both sides notice that the other has gone."""

_PAUSE: Final = 0.1
"""Seconds in which changes are gathered, so that a thousand of them are not a thousand events."""


class EventsHandler(PlatformHandler):
    """``/engine/events``."""

    _stream: ChangeStream | None = None

    async def get(self) -> None:  # not in the description: the answer has no end
        """Send the event ``changed`` with ids of what was made, changed or removed, by kind.

        The kinds are ``sandboxes``, ``templates``, ``snapshots``, ``volumes``, ``secrets`` (by
        name) and ``ports`` (of which sandboxes). The first event comes at once and is empty: from
        then on nothing is missed.
        """
        if self.is_rejected:
            self.finish()
            return
        changes = self.service.changes
        self._stream = stream = changes.add(caller())
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        try:
            await self._send({})
            while not stream.is_closed:
                await self._follow(stream)
        except StreamClosedError:
            return
        finally:
            changes.remove(stream)

    def release(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _may_follow(self) -> bool:
        """Whether the key of the request is still one: it may be revoked while this goes on."""
        try:
            self.check_key()
        except UnauthenticatedError:
            return False
        return True

    async def _follow(self, stream: ChangeStream) -> None:
        """Send the next event, or a comment when nothing has changed for a while."""
        has_changed = True
        try:
            async with asyncio.timeout(KEEPALIVE):
                await stream.wait()
            await asyncio.sleep(_PAUSE)
        except TimeoutError:
            has_changed = False
        if not self._may_follow():
            stream.close()
        elif has_changed and not stream.is_closed:
            await self._send(stream.take())
        elif not has_changed:
            self.write(": alive\n\n")
            await self.flush()

    async def _send(self, changed: dict[str, list[str]]) -> None:
        text = msgspec.json.encode(changed).decode()
        self.write(f"event: changed\ndata: {text}\n\n")
        await self.flush()
