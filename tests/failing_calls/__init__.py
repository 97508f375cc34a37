"""Lets one call that changes files fail: without space, with an input/output error, by a kill.

A preloaded library counts the calls of the engine's processes that change files below one
directory, and lets the chosen one fail. What Python, SQLite and other libraries do counts alike,
because all of them call the C library.
"""

from __future__ import annotations

import enum
import errno
import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_FIELDS = struct.Struct("<iiiiqqii512s512s")


class Failure(enum.Enum):
    """How a call fails; the value is the action, the error, and whether later calls fail too."""

    NO_SPACE = (1, errno.ENOSPC, True)
    """From this call on, until the test makes space; what removes files works."""

    BAD_DISK = (1, errno.EIO, False)
    KILLED = (2, 0, False)
    TORN = (3, 0, False)
    """A write comes half as far, then the process is killed."""


@dataclass
class FailingCalls:
    """The control file that processes with ``environment`` look at."""

    library: Path
    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            self.path.write_bytes(bytes(_FIELDS.size))
            self.path.chmod(0o666)  # an engine of another user counts too
        with self.path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _FIELDS.size)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that preload the library into a process and its children."""
        return {"LD_PRELOAD": str(self.library), "SBX_FAILING_CALLS": str(self.path)}

    def arm(self, folder: Path, failure: Failure, number: int, victim: int = 0) -> None:
        """Let call ``number`` (from 1) below ``folder`` fail from now on; 0 counts only.

        A failure that kills kills the process that calls, and ``victim``.
        """
        action, error, lasts = failure.value
        self.disarm()
        place = os.fsencode(folder)
        values = (0, error, action, lasts and number > 0, number or -1, 0, victim, 0, place, b"")
        _FIELDS.pack_into(self._shared, 0, *values)
        struct.pack_into("<i", self._shared, 0, 1)

    def disarm(self) -> None:
        """Let no call fail any more."""
        struct.pack_into("<i", self._shared, 0, 0)

    @property
    def count(self) -> int:
        """How many calls there were since ``arm``."""
        return _FIELDS.unpack_from(self._shared)[5]

    @property
    def hit(self) -> str:
        """The call that failed and its file; empty when there was none."""
        return _FIELDS.unpack_from(self._shared)[9].rstrip(b"\0").decode(errors="replace")


def build_library(folder: Path) -> Path:
    """Compile the library into ``folder``; skips where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = folder / "calls.so"
    source = Path(__file__).with_name("calls.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library
