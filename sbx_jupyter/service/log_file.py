"""Writes the engine's log to files of a limited size and number."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_SIZE: Final = 16 * 1024 * 1024
KEPT_FILES: Final = 4

_DELAY: Final = 0.2
_MOST_PENDING: Final = 512


class LogFile(logging.Handler):
    """Appends lines to a file, and starts a new file before one exceeds ``max_size`` bytes.

    The lines of the logger ``deferred``, one per request, are buffered for up to 0.2 seconds and
    written by a thread, since formatting and writing each one took a sixth of a request's time. All
    other lines are written at once, after the buffered ones, so that the order is kept.
    """

    def __init__(
        self,
        path: Path,
        *,
        deferred: str,
        max_size: int = MAX_SIZE,
        kept_files: int = KEPT_FILES,
    ) -> None:
        super().__init__()
        self._path = path
        self._deferred = deferred
        self._max_size = max_size
        self._kept_files = kept_files
        self._pending: deque[logging.LogRecord] = deque()
        self._file_lock = threading.Lock()
        self._fd = -1
        self._size = 0
        self._wanted = threading.Event()
        self._is_closed = False
        self._open()
        self._writer = threading.Thread(target=self._write_late, name="sbx-log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        self._pending.append(record)
        if record.name == self._deferred and len(self._pending) < _MOST_PENDING:
            if len(self._pending) == 1:
                self._wanted.set()
        else:
            self._write_pending()

    def flush(self) -> None:
        """Write the buffered lines."""
        self._write_pending()

    def close(self) -> None:
        """Write the buffered lines and close the file."""
        self.flush()
        self._is_closed = True
        self._wanted.set()
        self._writer.join()
        with self._file_lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            self._pending.clear()
        super().close()

    def _write_late(self) -> None:
        pause = threading.Event()
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._is_closed:
                return
            pause.wait(_DELAY)
            self.flush()

    def _write_pending(self) -> None:
        with self._file_lock:
            lines: list[bytes] = []
            size = 0
            while self._pending:
                line = self._line(self._pending.popleft())
                if lines and self._size + size + len(line) > self._max_size:
                    self._write(lines)
                    lines, size = [], 0
                lines.append(line)
                size += len(line)
            if lines:
                self._write(lines)

    def _line(self, record: logging.LogRecord) -> bytes:
        try:
            return self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:  # a record that cannot be formatted must not stop the others
            self.handleError(record)
            return b""

    def _write(self, lines: list[bytes]) -> None:
        text = b"".join(lines)
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(text) > self._max_size:
                self._rotate()
            view = memoryview(text)
            while view:
                view = view[os.write(self._fd, view) :]
            self._size += len(text)
        except OSError as error:
            # The disk is probably full, so that standard error is the only place to report it.
            print(f"{len(lines)} lines of the log are lost: {error}", file=sys.stderr)
            if self._fd >= 0:
                os.ftruncate(self._fd, self._size)  # no partial line

    def _rotate(self) -> None:
        """Rename each file to the next number, which drops the oldest, and start a new one."""
        os.close(self._fd)
        self._fd = -1
        try:
            for number in range(self._kept_files, 0, -1):
                source = self._numbered(number - 1)
                if source.exists():
                    source.replace(self._numbered(number))
        finally:
            self._open()  # the old file again, if it could not be renamed

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _numbered(self, number: int) -> Path:
        return self._path if not number else self._path.with_name(f"{self._path.name}.{number}")
