"""The log of one build, of bounded size, in memory and in a file."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live.subscriptions import Ended
from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.engine.tasks import finish_or_undo
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.protocol.templates import LEVELS, BuildLogEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.protocol.runtime import EndEvent
    from sbx_jupyter.protocol.templates import Level

_MAX_LINE: Final = 4096
_MAX_LINES: Final = 10_000
_MAX_CHARACTERS: Final = 4 * 1024 * 1024


class LogFile:
    """The log of one build in a file, one entry a line; every method blocks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        """Offset at which the last complete line ends."""

    def append(self, entries: Iterable[BuildLogEntry]) -> None:
        """Add entries after the last complete line, overwriting the rest. Raises ``OSError``."""
        raw = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.truncate(self._size)
            file.seek(self._size)
            file.write(raw)
        self._size += len(raw)

    def load(self) -> list[BuildLogEntry]:
        """The entries in the file, without a last line that a crash cut off."""
        entries: list[BuildLogEntry] = []
        self._size = 0
        with contextlib.suppress(FileNotFoundError):
            for line in self._path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                try:
                    entries.append(msgspec.json.decode(line, type=BuildLogEntry))
                except msgspec.DecodeError:
                    break
                self._size += len(line)
        return entries


class BuildLog:
    """The log of a running build, in memory; ``save`` writes it to the file.

    Only saved entries are shown to clients. They count the entries that they have seen, so after a
    crash of the engine each of these must still be at its index.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path)
        self.entries: list[BuildLogEntry] = []
        self._saved = 0
        self._saving = asyncio.Lock()
        self._lines_left = _MAX_LINES
        self._characters_left = _MAX_CHARACTERS
        self._is_cut = False

    @property
    def saved(self) -> list[BuildLogEntry]:
        """The entries on the disk."""
        return self.entries[: self._saved]

    def add(self, message: str, step: str | None = None, level: Level = "info") -> None:
        """Add an entry about the build itself."""
        entry = BuildLogEntry(timestamp=now(), message=message, level=level, step=step)
        self.entries.append(entry)

    def add_output(self, message: str, step: str | None, level: Level = "info") -> bool:
        """Add one line that a command wrote; false when no more lines are wanted.

        Lines beyond the size limits are dropped, and one entry says so.
        """
        if self._is_cut:
            return False
        if not self._lines_left or self._characters_left < len(message):
            self._is_cut = True
            self.add("the output of the build is too long: the rest is cut", step, "warn")
            return False
        self._lines_left -= 1
        self._characters_left -= len(message)
        self.add(message, step, level)
        return True

    async def save(self) -> None:
        """Write new entries to the file. Raises ``OSError``."""
        async with self._saving:
            await finish_or_undo(self._save())

    async def _save(self) -> None:
        new = self.entries[self._saved :]
        if new:
            await asyncio.to_thread(self._file.append, new)
            self._saved += len(new)


async def follow(process: Process, say: Callable[[str, str], bool | None]) -> EndEvent:
    """Call ``say`` with each line that a process writes and ``stdout`` or ``stderr``.

    Returns when the process ends. Raises ``UnavailableError`` when its output ends before.
    """
    lines = {
        kind: LineSplitter(lambda line, kind=kind: say(line, kind)) for kind in ("stdout", "stderr")
    }
    async with process.subscribe() as subscription:
        async for event in subscription:
            if isinstance(event, Ended):
                for rest in lines.values():
                    rest.close()
                return event.end
            lines[event.kind].feed(event.chunk)
    raise UnavailableError("the output of the process ended before it did")


def filter_by_level(entries: list[BuildLogEntry], level: Level | None) -> list[BuildLogEntry]:
    """The entries of this level or a more severe one."""
    if level is None:
        return entries
    return [entry for entry in entries if LEVELS.index(entry.level) >= LEVELS.index(level)]


class LineSplitter:
    """Splits the output of a command into lines, and long lines into pieces.

    When ``take`` returns ``False``, the rest of the output is ignored.
    """

    def __init__(self, take: Callable[[str], bool | None]) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._is_wanted = True

    def feed(self, chunk: bytes) -> None:
        if not self._is_wanted:
            return
        text = self._rest + self._decoder.decode(chunk)
        *lines, self._rest = text.replace("\r\n", "\n").split("\n")
        for line in lines:
            self._give(line)
        while len(self._rest) > _MAX_LINE:
            self._say(self._rest[:_MAX_LINE])
            self._rest = self._rest[_MAX_LINE:]

    def close(self) -> None:
        """Pass on the last line if it has no line end."""
        if rest := self._rest + self._decoder.decode(b"", final=True):
            self._rest = ""
            self._give(rest)

    def _give(self, line: str) -> None:
        # Progress bars overwrite their line: only what follows the last return stays visible.
        shown = line.rstrip("\r").rpartition("\r")[2]
        self._say(shown if len(shown) <= _MAX_LINE else shown[:_MAX_LINE] + "...")

    def _say(self, text: str) -> None:
        if self._is_wanted:
            self._is_wanted = self._take(text) is not False
