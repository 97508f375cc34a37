"""Packs files as a zip or tar while they arrive, under names that stay below one folder."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.errors import DataLossError, InvalidArgumentError

if TYPE_CHECKING:
    import datetime as dt

FORMATS: Final = ("zip", "tar", "tar.gz")

_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS
_BLOCK: Final = 512
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_LAST_YEAR: Final = 2107
_REPLACED: Final = "\\:"
"""Windows takes these for folders, drives and streams."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file or directory of an archive."""

    name: str
    is_directory: bool = False
    size: int = 0
    mode: int = 0o644
    modified: dt.datetime | None = None


class Packer(Protocol):
    """Makes an archive: for each file ``begin``, ``write`` and ``end``, then ``finish``.

    ``take`` gives what was made since the last call. Writing compresses, so it belongs in a thread.
    """

    def begin(self, member: Member) -> None: ...

    def write(self, content: bytes) -> None: ...

    def end(self) -> None: ...

    def finish(self) -> None: ...

    def take(self) -> bytes: ...


def create_packer(format: str) -> Packer:
    """Raises ``InvalidArgumentError`` for a format that is none of ``FORMATS``."""
    if format not in FORMATS:
        raise InvalidArgumentError(f"'format' must be one of {', '.join(FORMATS)}")
    return _ZipPacker() if format == "zip" else _TarPacker(is_compressed=format == "tar.gz")


def safe_name(path: str) -> str | None:
    """The name in an archive for a path in a sandbox; ``None`` if it could lead out of a folder.

    Control characters, and what Windows takes for folders and drives, become ``_``.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return None
    safe = ["".join(_safe_character(each) for each in part) for part in parts]
    return "/".join(safe)


def _safe_character(character: str) -> str:
    return character if character.isprintable() and character not in _REPLACED else "_"


class _Collected(io.RawIOBase):
    """A file that can only be written to, and gives what was written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    # zipfile and tarfile write nothing but bytes.
    def write(self, data: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


class _ZipPacker:
    def __init__(self) -> None:
        self._collected = _Collected()
        self._archive = zipfile.ZipFile(
            self._collected, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL
        )

    def begin(self, member: Member) -> None:
        info = zipfile.ZipInfo(member.name + ("/" if member.is_directory else ""), _time(member))
        info.compress_type = zipfile.ZIP_STORED if member.is_directory else zipfile.ZIP_DEFLATED
        kind = stat.S_IFDIR if member.is_directory else stat.S_IFREG
        info.external_attr = (kind | member.mode & 0o777) << 16
        if member.is_directory:
            info.external_attr |= 0x10
            self._archive.writestr(info, b"")
        else:
            self._file = self._archive.open(info, "w", force_zip64=True)

    def write(self, content: bytes) -> None:
        self._file.write(content)

    def end(self) -> None:
        self._file.close()

    def finish(self) -> None:
        self._archive.close()

    def take(self) -> bytes:
        return self._collected.take()


def _time(member: Member) -> tuple[int, int, int, int, int, int]:
    at = member.modified
    if at is None or not _EPOCH[0] <= at.year <= _LAST_YEAR:
        return _EPOCH
    return at.year, at.month, at.day, at.hour, at.minute, at.second


class _TarPacker:
    def __init__(self, *, is_compressed: bool) -> None:
        self._parts: list[bytes] = []
        self._compressor = zlib.compressobj(_LEVEL, wbits=_GZIP) if is_compressed else None
        self._left = 0
        self._padding = 0

    def begin(self, member: Member) -> None:
        info = tarfile.TarInfo(member.name)
        info.type = tarfile.DIRTYPE if member.is_directory else tarfile.REGTYPE
        info.mode = member.mode & 0o777
        info.size = 0 if member.is_directory else member.size
        info.mtime = max(0, int(member.modified.timestamp())) if member.modified else 0
        self._left, self._padding = info.size, -info.size % _BLOCK
        self._add(info.tobuf(tarfile.PAX_FORMAT))

    def write(self, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0:
            raise DataLossError("a file grew while it was packed")
        self._add(content)

    def end(self) -> None:
        if self._left:
            raise DataLossError("a file became shorter while it was packed")
        self._add(bytes(self._padding))

    def finish(self) -> None:
        self._add(bytes(2 * _BLOCK))
        if self._compressor is not None:
            self._parts.append(self._compressor.flush())

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken

    def _add(self, content: bytes) -> None:
        if self._compressor is not None:
            content = self._compressor.compress(content)
        self._parts.append(content)
