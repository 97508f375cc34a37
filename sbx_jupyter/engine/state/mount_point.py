"""Marks a directory as the place where a data directory is mounted: not mounted, it is none.

An engine that began anew there would hide from its user what is in the image.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.errors import FailedPreconditionError, see

if TYPE_CHECKING:
    from pathlib import Path

MARK: Final = "not-mounted.json"
DRAFT: Final = ".not-mounted.new"
"""The name under which it is written."""

_MOST_BYTES: Final = 1 << 16
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MountPoint(msgspec.Struct, kw_only=True, frozen=True):
    """The image that belongs on a directory, and the command by which root mounts it."""

    image: str
    kind: str
    command: str
    """Mounts the image, run by root."""
    inode: int = 0
    """Inode of the image; 0 as long as the image is not made."""
    is_whole: bool = False
    """Whether everything is in the image."""


def read_mark(directory: int, *, own: bool = False) -> MountPoint | None:
    """The mark in an open directory; ``None`` when there is none.

    With ``own``, one that another user wrote is an error. Raises ``FailedPreconditionError``.
    """
    try:
        with open(os.open(MARK, _OPEN, dir_fd=directory), "rb") as file:
            if own and os.fstat(file.fileno()).st_uid != os.geteuid():
                raise FailedPreconditionError(f"another user wrote the file {MARK} there")
            return msgspec.json.decode(file.read(_MOST_BYTES), type=MountPoint)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FailedPreconditionError(f"the file {MARK} cannot be read: {error}") from error


def write_mark(directory: int, mark: MountPoint) -> None:
    """Mark an open directory, whole and on the disk on return. Raises ``OSError``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(DRAFT, flags, 0o644, dir_fd=directory), "wb") as file:
        file.write(msgspec.json.encode(mark))
        file.flush()
        os.fchmod(file.fileno(), 0o644)  # for an engine of another user than root
        os.fsync(file.fileno())
    os.rename(DRAFT, MARK, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def remove_mark(directory: int) -> None:
    """Remove the mark and what is left of one. Raises ``OSError``."""
    for name in (MARK, DRAFT):
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            continue


def check_mounted(path: Path) -> None:
    """Raise ``FailedPreconditionError`` where a data directory is to be mounted and is not.

    The message has the command for root. Raises ``OSError``.
    """
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # it is another user's; an attempt to use it fails with that message
    try:
        mark = read_mark(directory)
    finally:
        os.close(directory)
    if mark is not None:
        raise FailedPreconditionError(
            f"what belongs in the data directory {path} is in {mark.image}, which is not mounted;"
            f" as root: {mark.command}{see('storage')}"
        )
