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


class CodeUsage(msgspec.Struct, kw_only=True, frozen=True):
    """What a sandbox used while it ran code: the last line of an answer with ``USAGE_HEADER``.

    ``cpu_ns`` is processor time, ``None`` where it is not known; ``mem_used`` the larger of the
    readings before and after, in bytes. ``diff`` compares with the template, if that was asked for
    and is short.
    """

    cpu_ns: int | None = None
    mem_used: int = 0
    diff: Diff | None = None
