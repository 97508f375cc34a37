"""The log of a build: entries that never change their place, kept within bounds."""

from __future__ import annotations

import asyncio
import codecs
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.records import now
from sbx_jupyter.protocol.templates import LEVELS, BuildLogEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sbx_jupyter.protocol.templates import Level

_MAX_LINE: Final = 4096
_MAX_LINES: Final = 10_000
_MAX_CHARACTERS: Final = 4 * 1024 * 1024


class BuildLog:
    """Entries in memory while the build runs; ``save`` brings them to the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[BuildLogEntry] = []
        self._saved = 0
        self._lines_left = _MAX_LINES
        self._characters_left = _MAX_CHARACTERS
        self._is_cut = False

    def add(self, message: str, step: str | None = None, level: Level = "info") -> None:
        """Say something about the build itself."""
        entry = BuildLogEntry(timestamp=now(), message=message, level=level, step=step)
        self.entries.append(entry)

    def add_output(self, message: str, step: str | None, level: Level = "info") -> None:
        """Take one line that a command wrote; beyond the bounds it is dropped, and that is said."""
        if self._is_cut:
            return
        if not self._lines_left or self._characters_left < len(message):
            self._is_cut = True
            self.add("the output of the build is too long: the rest is cut", step, "warn")
            return
        self._lines_left -= 1
        self._characters_left -= len(message)
        self.add(message, step, level)

    async def save(self) -> None:
        """Write new entries to the file. Raises ``OSError``."""
        new = self.entries[self._saved :]
        if new:
            self._saved += len(new)
            await asyncio.to_thread(append, self._path, new)


def append(path: Path, entries: Iterable[BuildLogEntry]) -> None:
    """Add entries to the file of a log; blocking."""
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(entry) + b"\n" for entry in entries)


def load(path: Path) -> list[BuildLogEntry]:
    """The entries in a file; a last line that a crash cut off is left out. Blocking."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    entries: list[BuildLogEntry] = []
    for line in lines:
        try:
            entries.append(msgspec.json.decode(line, type=BuildLogEntry))
        except msgspec.DecodeError:
            break
    return entries


def at_least(entries: list[BuildLogEntry], level: Level | None) -> list[BuildLogEntry]:
    """Those of this level or a graver one."""
    if level is None:
        return entries
    return [entry for entry in entries if LEVELS.index(entry.level) >= LEVELS.index(level)]


class Lines:
    """Cuts the output of a command into lines; one without an end is given in pieces."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, chunk: bytes) -> None:
        text = self._rest + self._decoder.decode(chunk)
        *lines, self._rest = text.replace("\r\n", "\n").split("\n")
        for line in lines:
            self._give(line)
        while len(self._rest) > _MAX_LINE:
            self._take(self._rest[:_MAX_LINE])
            self._rest = self._rest[_MAX_LINE:]

    def close(self) -> None:
        """Give what is left."""
        if rest := self._rest + self._decoder.decode(b"", final=True):
            self._rest = ""
            self._give(rest)

    def _give(self, line: str) -> None:
        # Progress bars write over themselves: what remains visible is after the last return.
        shown = line.rstrip("\r").rpartition("\r")[2]
        self._take(shown if len(shown) <= _MAX_LINE else shown[:_MAX_LINE] + "...")
