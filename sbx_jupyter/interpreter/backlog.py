"""Keeps output of a kernel that no client has taken: its beginning and its end, within a size."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.interpreter import events

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SIZE: Final = 32 * 1024 * 1024
"""Bytes that wait for a client; of more, only the end is kept."""
MAX_TAIL: Final = 7 * 1024
"""Characters of the end of what was printed: less than clients keep of it, so that the line about
the gap is among that."""

_EACH: Final = 512
"""Bytes counted for a message besides its own, so that short ones have a limit as well."""
_MAX_LAST: Final = 100
_DELIMITER: Final = b"<IDS|MSG>"
_RESULTS: Final = (b'"display_data"', b'"execute_result"')

Message = dict[str, Any]
Frames = list[bytes]


class Backlog:
    """Takes every message at once and as it came, so that the kernel never has to drop one.

    When a client reads more slowly than the kernel speaks, the middle of what was printed is left
    out, and a line says how much that was. ``decode`` gives the message of frames, or ``None``.
    """

    def __init__(self, decode: Callable[[Frames], Message | None]) -> None:
        self._decode = decode
        self._waiting: deque[Frames | Message] = deque()
        self._size = 0
        self._gap: _Gap | None = None
        self._arrived = asyncio.Event()
        self._is_closed = False

    def add(self, frames: Frames) -> None:
        """Keep a message as far as there is room. Raises ``ValueError`` for what is none."""
        parts_of(frames)
        has_room = not self._waiting or self._size + _size(frames) <= MAX_SIZE
        if self._gap is None and has_room:
            self._waiting.append(frames)
            self._size += _size(frames)
        else:
            self._gap = self._gap or _Gap()
            self._gap.add(frames)
        self._arrived.set()

    def close(self) -> None:
        """Note that no message comes any more."""
        self._is_closed = True
        self._arrived.set()

    async def take(self) -> Message:
        """Wait for the next message. Raises ``EOFError`` after the last, once closed."""
        while True:
            while not self._waiting:
                if self._gap is not None:
                    self._waiting += self._gap.rest(self._decode)
                    self._gap = None
                    continue
                if self._is_closed:
                    raise EOFError
                self._arrived.clear()
                await self._arrived.wait()
            found = self._waiting.popleft()
            if isinstance(found, dict):
                return found
            self._size -= _size(found)
            if (message := self._decode(found)) is not None:
                return message

    def __bool__(self) -> bool:
        return bool(self._waiting) or self._gap is not None


class _Gap:
    """Counts what is left out, and keeps the end."""

    def __init__(self) -> None:
        self._bytes = 0
        self._results = 0
        self._texts: deque[Frames] = deque()
        self._texts_size = 0
        self._last: deque[Frames] = deque()
        """Messages that end the execution; sent after the last of the printed text."""

    def add(self, frames: Frames) -> None:
        """Keep or count a message."""
        header, _, _, content = parts_of(frames)
        if b'"stream"' in header:
            self._print(frames)
        elif any(kind in header for kind in _RESULTS):
            self._results += 1
        elif b'"idle"' in content or len(self._last) < _MAX_LAST:
            self._last.append(frames)
            if len(self._last) > 2 * _MAX_LAST:
                self._last.popleft()

    def rest(self, decode: Callable[[Frames], Message | None]) -> list[Message]:
        """The messages after the gap."""
        tail: list[Message] = []
        room = MAX_TAIL
        for message in map(decode, reversed(self._texts)):
            if message is not None:
                text = message["content"]["text"]
                end = text[-room:] if room else ""
                self._bytes += len(text) - len(end)
                room -= len(end)
                tail += [message | {"content": message["content"] | {"text": end}}] if end else []
        left = [f"{self._bytes / 1e6:.3g} MB of output"] if self._bytes else []
        left += [f"{self._results} results"] if self._results else []
        note: list[Message] = []
        if left:
            end = "; the end of the output follows" if tail else ""
            said = f"\n[cut: {' and '.join(left)}, which came faster than it was read{end}]\n"
            note = [events.printed(said)]
        last = [message for message in map(decode, self._last) if message is not None]
        return [*note, *reversed(tail), *last]

    def _print(self, frames: Frames) -> None:
        self._texts.append(frames)
        self._texts_size += _size(frames)
        # Each is longer than its text, so that there is at least the end that is shown.
        while self._texts_size > 64 * MAX_TAIL and len(self._texts) > 1:
            dropped = self._texts.popleft()
            self._texts_size -= _size(dropped)
            content = parts_of(dropped)[3]
            # A character that is no text takes six bytes.
            self._bytes += len(content) - 5 * content.count(b"\\u")


def parts_of(frames: Frames) -> tuple[bytes, bytes, bytes, bytes]:
    """Header, parent header, metadata and content. Raises ``ValueError`` for what is no message."""
    at = frames.index(_DELIMITER)
    header, parent, metadata, content = frames[at + 2 : at + 6]
    return header, parent, metadata, content


def _size(frames: Frames) -> int:
    return _EACH + sum(map(len, frames))
