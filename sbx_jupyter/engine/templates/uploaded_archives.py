"""Checks an uploaded tar before a sandbox unpacks it (interface 7.3, COPY).

Nothing is unpacked here: the sandbox does that, as one of its own users.
"""

from __future__ import annotations

import gzip
import posixpath
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.trees.tar_headers import LimitedTarFile

if TYPE_CHECKING:
    from pathlib import Path

_MAX_ENTRIES: Final = 200_000
_MAX_NAME: Final = 4096
_GZIP: Final = b"\x1f\x8b"


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed by gzip; blocking."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def check_archive(path: Path, max_bytes: int) -> int:
    """Check every entry; returns the total bytes of the files. Blocking.

    Raises ``InvalidArgumentError`` for an entry that must not be unpacked, with its name, and for a
    file that is no tar or too large.
    """
    opener = gzip.open if is_gzip(path) else open
    seen = _CheckedEntries()
    total = count = 0
    try:
        with (
            opener(path, "rb") as file,
            LimitedTarFile.open(fileobj=file, mode="r|") as tar,
        ):
            for member in tar:
                count += 1
                total += member.size
                if count > _MAX_ENTRIES:
                    raise InvalidArgumentError(f"the archive has more than {_MAX_ENTRIES} entries")
                if total > max_bytes:
                    raise InvalidArgumentError(
                        f"'{_shown(member.name)}': the archive unpacks to more than "
                        f"{max_bytes >> 20} MiB"
                    )
                seen.check(member)
                # It would keep one for each entry; typeshed does not know the attribute.
                tar.members = []  # pyright: ignore[reportAttributeAccessIssue]
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise InvalidArgumentError(f"the upload is not a complete tar: {error}") from error
    return total


class _CheckedEntries:
    """The entries checked so far, by normalised name."""

    def __init__(self) -> None:
        self._links: set[str] = set()
        self._files: set[str] = set()

    def check(self, member: tarfile.TarInfo) -> None:
        if len(member.name) > _MAX_NAME:
            # Nothing could open it, and the walk over its parents below would be quadratic.
            raise _refused(member.name, "the name is too long")
        name = _inside(member.name, member.name)
        parent = posixpath.dirname(name)
        while parent:
            if parent in self._links:
                raise _refused(member.name, "it lies below a symbolic link")
            parent = posixpath.dirname(parent)
        if member.issym():
            self._check_target(member, name)
            self._links.add(name)
            self._files.discard(name)
        elif member.islnk():
            target = _inside(member.linkname, member.name)
            if target not in self._files:
                raise _refused(member.name, "a hard link to something that is not in the archive")
            self._files.add(name)
        elif member.isreg():
            self._links.discard(name)
            self._files.add(name)
        elif not member.isdir():
            raise _refused(member.name, "neither file, directory nor link")

    @staticmethod
    def _check_target(member: tarfile.TarInfo, name: str) -> None:
        # An absolute target stays inside the sandbox, and clients make such links.
        if not member.linkname.startswith("/"):
            _inside(posixpath.join(posixpath.dirname(name), member.linkname), member.name)


def _inside(path: str, shown: str) -> str:
    """Normalise a path in the archive; raises ``InvalidArgumentError`` if it leads out of it."""
    if path.startswith("/"):
        raise _refused(shown, "an absolute name")
    if "\0" in path:
        raise _refused(shown, "a NUL byte in the name")
    normal = posixpath.normpath(path)
    if normal == ".." or normal.startswith("../"):
        raise _refused(shown, "it leads out of the archive")
    if path == shown and ".." in path.split("/"):
        raise _refused(shown, "'..' in the name")
    return "" if normal == "." else normal


def _refused(name: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"'{_shown(name)}' in the archive is refused: {why}")


def _shown(name: str) -> str:
    return name[:200].encode("utf-8", "backslashreplace").decode()
