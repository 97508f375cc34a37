"""One connection to a program in a sandbox, joined by the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sbx_jupyter.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import SupportsIndex


class ClosedPortError(UnavailableError):
    """Nothing listens on the port of the sandbox yet."""


class BrokenAnswerError(UnavailableError):
    """The program gives no answer, half an answer, or one that is not HTTP."""


class TunnelRefusedError(UnavailableError):
    """The engine joins nobody to this port; it may still forward requests to it."""


class TunnelReader(asyncio.StreamReader):
    """Knows whether anything arrived while no request was under way."""

    is_idle = False
    is_spoiled = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        if self.is_idle:
            self.is_spoiled = True
        super().feed_data(data)

    def is_read(self) -> bool:
        """Whether nothing waits to be read, and more can come."""
        this: Any = self  # the type stubs leave the buffer out
        return not this._buffer and not self.at_eof()


@dataclass(slots=True, eq=False)
class Tunnel:
    """One connection to a program in a sandbox."""

    reader: TunnelReader
    writer: asyncio.StreamWriter
    was_used: bool = False
    """Whether it has served a request: the program may have closed it meanwhile."""
    closing: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close it at once; unsent bytes are dropped."""
        self.writer.transport.abort()

    def rest(self) -> None:
        """Note that no request uses it now."""
        self.was_used = self.reader.is_idle = True

    def wake(self) -> bool:
        """Note that a request uses it; false if it cannot be used any more."""
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None
        self.reader.is_idle = False
        return not (
            self.reader.is_spoiled or self.reader.at_eof() or self.writer.transport.is_closing()
        )
