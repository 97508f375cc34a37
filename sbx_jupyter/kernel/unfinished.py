"""Requests that a kernel replied to without the news that it is idle again.

Front ends wait for that news, and a kernel that sends a flood can lose it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from sbx_jupyter.kernel.messages import named

if TYPE_CHECKING:
    from collections.abc import Callable

SILENCE: Final = 5.0
"""Seconds without a message of a request after its reply, until its last messages are lost."""

_MOST: Final = 1000


class Unfinished:
    """The requests to run code of one kernel whose end is due. Headers are checked JSON."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._idle: OrderedDict[str, None] = OrderedDict()
        """Requests whose end was seen, since kernels may say it before they reply."""
        self._due: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        """By request: the time of its last message, and its header."""
        self._any = asyncio.Event()
        self._is_suspended = False

    def replied(self, header: bytes, parent: bytes) -> None:
        """Note a reply."""
        if b'"execute_reply"' not in header:
            return
        request = named(parent).msg_id
        if request in self._idle:
            del self._idle[request]
            return
        self._due[request] = self._now(), parent
        self._any.set()
        if len(self._due) > _MOST:
            self._due.popitem(last=False)

    def heard(self, parent: bytes, content: bytes, *, is_status: bool) -> None:
        """Note a message of the output channel."""
        is_idle = is_status and b'"idle"' in content
        if not is_idle and not self._due:
            return
        request = named(parent).msg_id
        if not is_idle and request in self._due:
            self._due[request] = self._now(), self._due[request][1]
        elif is_idle and self._due.pop(request, None) is None:
            self._idle[request] = None
            if len(self._idle) > _MOST:
                self._idle.popitem(last=False)

    async def overdue(self) -> list[bytes]:
        """Wait for requests whose end is lost; return their headers and forget them."""
        while True:
            if not self._due or self._is_suspended:
                self._any.clear()
                await self._any.wait()
                continue
            oldest = min(at for at, _ in self._due.values())
            await asyncio.sleep(max(0.0, oldest + SILENCE - self._now()))
            limit = self._now() - SILENCE
            lost = [request for request, (at, _) in self._due.items() if at <= limit]
            if lost and not self._is_suspended:
                return [self._due.pop(request)[1] for request in lost]

    def suspend(self) -> None:
        """Count no silence from now on: nothing can be heard."""
        self._is_suspended = True

    def resume(self) -> None:
        """Count the silence from now on."""
        self._due = OrderedDict((key, (self._now(), kept)) for key, (_, kept) in self._due.items())
        self._is_suspended = False
        self._any.set()
