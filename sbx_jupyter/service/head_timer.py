"""Closes connections whose next request does not begin in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection


class HeadTimer:
    """One timer for all connections that wait for the head of a request.

    tornado's own has a timer and two futures for each request, a tenth of what a short one takes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[object, tuple[float, HTTP1Connection]] = {}
        """Waits by connection of the server, in the order in which they began."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, server_connection: object, connection: HTTP1Connection) -> None:
        """A connection waits for the head of a request from now on."""
        loop = asyncio.get_running_loop()
        self._waiting[server_connection] = (loop.time(), connection)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._close_late)

    def end(self, server_connection: object) -> None:
        """The head has arrived, or the connection is closed."""
        self._waiting.pop(server_connection, None)

    def stop(self) -> None:
        """Close no more connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_late(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for server_connection, (since, connection) in list(self._waiting.items()):
            if (due := since + self._seconds) > loop.time():
                self._timer = loop.call_at(due, self._close_late)
                return
            self.end(server_connection)
            connection.close()
