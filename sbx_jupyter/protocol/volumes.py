"""The records of volumes and their content (interface 1.6)."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import field

from sbx_jupyter.protocol.platform import Record

EntryKind = Literal["unknown", "file", "directory", "symlink"]


class NewVolume(Record, frozen=True):
    name: str


class Volume(Record, frozen=True):
    volume_id: str = field(name="volumeID")
    name: str


class VolumeAndToken(Record, frozen=True):
    volume_id: str = field(name="volumeID")
    name: str
    token: str


class VolumeEntry(Record, frozen=True):
    """``VolumeEntryStat``; sizes in bytes, ``mode`` as a number."""

    name: str
    type: EntryKind
    path: str
    size: int
    mode: int
    uid: int
    gid: int
    atime: dt.datetime
    mtime: dt.datetime
    ctime: dt.datetime
    target: str | None = None


class ChangeEntry(Record, frozen=True):
    uid: int | None = None
    gid: int | None = None
    mode: int | None = None
