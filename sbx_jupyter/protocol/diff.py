"""The records of a sandbox's diff, an addition to the platform API."""

from __future__ import annotations

from typing import Literal

import msgspec

ChangeKind = Literal["added", "changed", "deleted"]
EntryKind = Literal["file", "directory", "symlink", "other"]


class Change(msgspec.Struct, kw_only=True, frozen=True):
    """One path that differs; ``size`` in bytes, of files.

    ``changed_us`` is when its content or attributes last changed, in microseconds of Unix time; 0
    for what is deleted.
    """

    path: str
    change: ChangeKind
    type: EntryKind
    size: int
    changed_us: int = 0


class Diff(msgspec.Struct, kw_only=True, frozen=True):
    """The changes of a sandbox; ``truncated`` when not all are listed."""

    changes: list[Change]
    truncated: bool
