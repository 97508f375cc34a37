"""The ids that belong to users and groups of this machine, so that no sandbox gets them.

Standard library only, for the zygote.
"""

from __future__ import annotations

import bisect
import grp
import os
import pwd
from pathlib import Path
from typing import Final

_SUBORDINATE: Final = ("subuid", "subgid")
_ACCOUNTS: Final = {"passwd": (2, 3), "group": (2,)}
"""Files of the user database, and the fields that hold an id."""

Extent = tuple[int, int]
"""The first id and the one after the last."""


class LocalIds:
    """The ids in the files of ``/etc``, read again when one of them has changed."""

    def __init__(self, etc: str = "/etc", known: list[int] | None = None) -> None:
        """``known``: ids that are not in the files, such as those of a directory service."""
        self._paths = [Path(etc, name) for name in (*_SUBORDINATE, *_ACCOUNTS)]
        self._known = [(number, number + 1) for number in known or ()]
        self._seen: list[object] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def overlap(self, first: int, count: int) -> bool:
        """Whether one of ``count`` ids from ``first`` belongs to somebody."""
        seen = [_mark(path) for path in self._paths]
        if seen != self._seen:
            self._read()
            self._seen = seen
        before = bisect.bisect_left(self._starts, first + count)
        return before > 0 and self._ends[before - 1] > first

    def _read(self) -> None:
        extents = [*self._known]
        for path in self._paths:
            extents += _extents(path)
        merged: list[Extent] = []
        for start, end in sorted(extents):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]


def of_user_database() -> list[int]:
    """All ids that the machine's user database lists, from whatever service; may block."""
    users = pwd.getpwall()
    groups = grp.getgrall()
    return sorted(
        {user.pw_uid for user in users}
        | {user.pw_gid for user in users}
        | {group.gr_gid for group in groups}
    )


def _mark(path: Path) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _extents(path: Path) -> list[Extent]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found: list[Extent] = []
    for line in lines:
        fields = line.split(":")
        if path.name in _SUBORDINATE:
            numbers = _numbers(fields, (1, 2))
            found += [(numbers[0], numbers[0] + numbers[1])] if len(numbers) == 2 else []
        else:
            found += [(n, n + 1) for n in _numbers(fields, _ACCOUNTS[path.name])]
    return found


def _numbers(fields: list[str], places: tuple[int, ...]) -> list[int]:
    return [
        int(fields[place])
        for place in places
        if place < len(fields) and fields[place].isascii() and fields[place].isdigit()
    ]
