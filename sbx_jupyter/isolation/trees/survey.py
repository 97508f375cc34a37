"""Counts what a tree holds, to tell how much a copy takes and whether one is complete."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.trees.copying import entries
from sbx_jupyter.isolation.trees.descent import FOLDER, descent_into

if TYPE_CHECKING:
    import re
    from collections.abc import Collection

_BLOCK: Final = 512


@dataclass(slots=True)
class Survey:
    """Counts of what is in a tree, without the top itself."""

    folders: int = 0
    files: int = 0
    """Names of regular files: one with two names counts twice."""
    others: int = 0
    """Links, FIFOs, sockets and devices."""
    again: int = 0
    """Further names of files that have several in this tree."""
    content: int = 0
    """The lengths of all files together, in bytes, by names."""
    disk: int = 0
    """Bytes that it takes on the disk, each file once."""

    @property
    def entries(self) -> int:
        """Number of all names."""
        return self.folders + self.files + self.others

    def differences(self, copy: Survey) -> list[str]:
        """Describe in words what a copy of this has more or less of; empty when it has all.

        The space that names take on the disk differs between file systems, and is left out.
        """
        counts = {
            "directories": (self.folders, copy.folders),
            "files": (self.files, copy.files),
            "links and devices": (self.others, copy.others),
            "second names of files": (self.again, copy.again),
            "bytes": (self.content, copy.content),
        }
        return [
            f"{there} {what} instead of {here}"
            for what, (here, there) in counts.items()
            if here != there
        ]


def survey(
    top: str, *, apart: Collection[str] = (), ignored: re.Pattern[str] | None = None
) -> Survey:
    """Count what is in a tree that does not change meanwhile; follows no link.

    Each directory in those named ``apart`` is counted as one that shares no file with the rest,
    and what is named ``ignored`` at the top is left out. Raises ``OSError``.
    """
    found = Survey()
    seen: set[tuple[str, int, int]] = set()
    with descent_into([top]) as descent:
        pending = [_count(found, seen, "", descent.descriptor(0), ignored)]
        while pending:
            if not pending[-1]:
                pending.pop()
                if pending:
                    descent.leave()
                continue
            name = pending[-1].pop()
            folder = os.open(name, FOLDER, dir_fd=descent.descriptor(0))
            descent.enter(name, {0: folder})
            above, *rest = descent.path("").split("/")
            tree = f"{above}/{rest[0]}" if above in apart else ""
            pending.append(_count(found, seen, tree, folder, None))
    return found


def _count(
    found: Survey,
    seen: set[tuple[str, int, int]],
    tree: str,
    folder: int,
    ignored: re.Pattern[str] | None,
) -> list[str]:
    """Count the entries of an open directory; gives the directories among them."""
    below: list[str] = []
    for name, status in entries(folder).items():
        if ignored is not None and ignored.fullmatch(name):
            continue
        if stat.S_ISDIR(status.st_mode):
            below.append(name)
            found.folders += 1
            found.disk += status.st_blocks * _BLOCK
            continue
        if stat.S_ISREG(status.st_mode):
            found.files += 1
            found.content += status.st_size
        else:
            found.others += 1
        if status.st_nlink > 1:
            if (identity := (tree, status.st_dev, status.st_ino)) in seen:
                found.again += 1
                continue
            seen.add(identity)
        found.disk += status.st_blocks * _BLOCK
    return below
