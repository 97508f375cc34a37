"""The output of a process: decoded as it arrives, and kept up to a limit."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.display import reports

OUTPUT_LIMIT: Final = 64 * 1024 * 1024
"""Characters that are kept of a stream: the last ones."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command. ``exit_code`` is -1 when a signal ended it; ``error`` then names it."""

    stdout: str
    stderr: str
    exit_code: int
    error: str | None = None
    truncated: bool = False

    def _repr_html_(self) -> str:
        return reports.command(
            stdout=self.stdout, stderr=self.stderr, exit_code=self.exit_code, error=self.error
        )


class OutputBuffer:
    """Decodes the bytes of one stream as UTF-8 and keeps the last ``limit`` characters."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: deque[str] = deque()
        self._size = 0
        self._limit = limit
        self.truncated = False

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        """Take a chunk; return the characters that it completes."""
        text = self._decoder.decode(chunk, final)
        if text:
            self._pieces.append(text)
            self._size += len(text)
            self._trim()
        return text

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = deque(["".join(self._pieces)])
        return self._pieces[0] if self._pieces else ""

    def _trim(self) -> None:
        while self._size > self._limit:
            self.truncated = True
            excess = self._size - self._limit
            first = self._pieces.popleft()
            if len(first) > excess:
                self._pieces.appendleft(first[excess:])
                self._size -= excess
            else:
                self._size -= len(first)
