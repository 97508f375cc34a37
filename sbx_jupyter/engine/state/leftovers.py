"""Lists the engine's own entries in its directories, without what others put there.

A start must not fail for a stray entry, nor remove what the engine did not make.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_log = logging.getLogger(__name__)

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SANDBOX_ID: Final = re.compile(r"i[a-z0-9]{20}")
_MANIFEST: Final = re.compile(rf"({UUID.pattern})\.manifest(\.new)?")


def directories(folder: Path, names: re.Pattern[str], *, is_logged: bool = True) -> list[str]:
    """The names of the directories of the engine in a folder; blocking.

    Every other entry is logged, unless told otherwise.
    """
    return _entries(folder, names, stat.S_ISDIR, is_logged)


def files(folder: Path, names: re.Pattern[str]) -> list[str]:
    """Like ``directories``, for regular files."""
    return _entries(folder, names, stat.S_ISREG, is_logged=True)


def _entries(
    folder: Path, names: re.Pattern[str], is_expected: Callable[[int], bool], is_logged: bool
) -> list[str]:
    found: list[str] = []
    for name in os.listdir(folder):
        try:
            mode = os.lstat(folder / name).st_mode
        except FileNotFoundError:
            continue
        if names.fullmatch(name) and is_expected(mode):
            found.append(name)
        elif is_logged and not _MANIFEST.fullmatch(name):
            _log.warning("%s is not of the engine and is left as it is", folder / name)
    return found
