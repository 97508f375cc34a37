"""Keeps what the kernel prints while its caller does not take it, within a size."""

from __future__ import annotations

import asyncio
import collections
import json
import time
from typing import TYPE_CHECKING

from .frames import CUT, MAX_MESSAGE, parts, signed, size

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_AT_ONCE = 64
"""Messages that are read before something else has its turn."""
_MOST_TEXT = 8 * MAX_MESSAGE
"""Bytes of printed text in one message that are taken apart; of more only the size is told."""
_PIECE = 4 * 1024 * 1024
"""Characters, each of which takes up to six bytes in a message."""
_MOST_WAITING = 32 * 1024 * 1024
"""Bytes of output that wait for the caller; of more, only the end is kept."""
_END = 256 * 1024
_TAIL = 16 * 1024
"""Characters of the end of the last text, where that is longer than all that is kept."""


def smaller(frames: list[bytes], key: bytes) -> Iterator[list[bytes]]:
    """Printed text that is too large for one message in several; of others, their size in words."""
    header, parent, metadata, content = parts(frames)
    about = json.loads(header)
    if about["msg_type"] == "stream" and len(content) <= _MOST_TEXT:
        fields = json.loads(content)
    else:
        count = sum(map(len, frames)) // 1024**2
        fields = {"name": "stderr", "text": f"[cut: {count} MiB of output at once are left out]\n"}
    for start in range(0, len(fields["text"]), _PIECE):
        own = about | {"msg_type": "stream", "msg_id": f"{about['msg_id']}_{start}"}
        said = fields | {"text": fields["text"][start : start + _PIECE]}
        yield signed([json.dumps(own).encode(), parent, metadata, json.dumps(said).encode()], key)


class _Last:
    """The last messages of a kind, at least one and else within a size."""

    def __init__(self) -> None:
        self.frames: collections.deque[list[bytes]] = collections.deque()
        self._size = 0

    def add(self, frames: list[bytes]) -> Iterator[list[bytes]]:
        """Keep a message; gives those for which there is no room any more."""
        self.frames.append(frames)
        self._size += size(frames)
        while self._size > _END and len(self.frames) > 1:
            first = self.frames.popleft()
            self._size -= size(first)
            yield first


class Backlog:
    """Output of the kernel that the caller has not taken: the beginning and the end, within a size.

    All of it is read at once, since a kernel drops what nobody reads, and so the news that it is
    idle. Pages wait for that.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._waiting: collections.deque[list[bytes]] = collections.deque()
        self._size = 0
        self._texts, self._others = _Last(), _Last()
        self._idle: collections.deque[list[bytes]] = collections.deque(maxlen=MOST_AT_ONCE)
        self._cut = 0
        self._arrived = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting or self._texts.frames or self._others.frames)

    def add(self, frames: list[bytes]) -> None:
        """Keep a message; where there is no room for all, only the last ones. Others are left."""
        if len(parts(frames)) < 4:
            return
        is_cutting = bool(self._texts.frames or self._others.frames)
        # The beginning is kept however long it is.
        has_room = not self._waiting or self._size + size(frames) <= _MOST_WAITING
        if has_room and not is_cutting:
            self._waiting.append(frames)
            self._size += size(frames)
        else:
            last = self._texts if b'"stream"' in parts(frames)[0] else self._others
            for dropped in last.add(frames):
                self._drop(dropped)
        self._arrived.set()

    async def take(self) -> list[bytes]:
        """Wait for the next message."""
        while not self._waiting:
            if self:
                self._resume()
                continue
            self._arrived.clear()
            await self._arrived.wait()
        frames = self._waiting.popleft()
        self._size -= size(frames)
        return frames

    def _drop(self, frames: list[bytes]) -> None:
        header, _, _, content = parts(frames)
        if b'"status"' in header and b'"idle"' in content:
            self._idle.append(frames)
        else:
            # A character that is no text takes six bytes.
            self._cut += len(content) - 5 * content.count(b"\\u")

    def _resume(self) -> None:
        """Go on after the gap: with its size, the end of what was printed, and the rest."""
        end = [*self._texts.frames, *self._others.frames]
        if len(self._texts.frames) == 1 and size(end[0]) > _END:
            self._drop(end[0])
            end[:1] = self._tail_of(end[0])
        if self._cut:
            parent = parts(end[-1])[1] if end else b"{}"
            header = {"msg_type": CUT, "msg_id": f"{CUT}_{time.monotonic_ns()}"}
            content = {"size": self._cut}
            fields = [json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]
            self._waiting.append(signed(fields, self._key))
        self._waiting += [*self._idle, *end]
        self._size = sum(map(size, self._waiting))
        self._texts, self._others = _Last(), _Last()
        self._idle.clear()
        self._cut = 0

    def _tail_of(self, frames: list[bytes]) -> list[list[bytes]]:
        """The end of a long text, if it is one."""
        header, parent, metadata, content = parts(frames)
        try:
            fields = json.loads(content[:_MOST_TEXT])
            said = fields | {"text": fields["text"][-_TAIL:]}
        except (ValueError, TypeError, KeyError, RecursionError):
            return []
        return [signed([header, parent, metadata, json.dumps(said).encode()], self._key)]
