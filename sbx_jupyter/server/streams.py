"""The base of the routes that answer with server-sent events."""

from __future__ import annotations

from typing import Final

import msgspec

from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import Parameter

HEARTBEAT: Final = 15.0
"""Seconds between two signs of life, by which both sides notice that the other has gone."""

ALIVE: Final = ": alive\n\n"

LAST_EVENT: Final = Parameter(
    "Last-Event-ID", "The id of the last event that the client has got.", place="header"
)


class EventStream(SandboxRoute):
    """Sends events until the page disconnects or ``get`` returns."""

    _track_activity = False

    is_gone = False
    """Whether the page has disconnected."""

    @property
    def last_event(self) -> str:
        """The id of the last event that the page has got, when it connects again."""
        return self.request.headers.get("Last-Event-ID", "")

    async def begin(self) -> None:
        """Send the headers."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")
        await self.flush()

    async def send(self, text: str) -> None:
        """Waits while the page is slow; raises ``StreamClosedError`` when it has gone."""
        self.write(text)  # pyright: ignore[reportUnknownMemberType] - tornado's dict
        await self.flush()

    def on_connection_close(self) -> None:
        """Note that the page has gone."""
        self.is_gone = True
        super().on_connection_close()


def event(name: str, record: object, event_id: str) -> str:
    """The text of one event."""
    return f"id: {event_id}\nevent: {name}\ndata: {msgspec.json.encode(record).decode()}\n\n"
