"""Space that is kept for a start on a full disk, so that an engine can be used to clean up."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 4 << 20
_FILES: Final = 32
"""A start makes some new files, which a file system may have no inodes for."""


class Reserve:
    """The directory ``reserve`` of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "reserve"

    def fill(self) -> None:
        """Take the space if it is not taken yet; blocking. A disk without room for it has none."""
        space = self._folder / "space"
        with contextlib.suppress(OSError):
            if space.exists() and space.stat().st_blocks * 512 >= _BYTES:
                return
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for number in range(_FILES):
                (self._folder / f"file-{number}").touch(mode=0o600)
            descriptor = os.open(space, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _BYTES)
            finally:
                os.close(descriptor)

    def release(self) -> bool:
        """Give the space back; blocking. Returns whether there was any."""
        had = self._folder.is_dir()
        shutil.rmtree(self._folder, ignore_errors=True)
        return had
