"""Entries of the file system as clients see them (interface 3.4, "EntryInfo values")."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidArgumentError, ResourceExhaustedError
from . import paths

if TYPE_CHECKING:
    from .users import Users

Entry = dict[str, Any]

MAX_ENTRIES: Final = 200_000
METADATA_PREFIX: Final = "user.e2b."

_FILE: Final = "FILE_TYPE_FILE"
_DIRECTORY: Final = "FILE_TYPE_DIRECTORY"
_UNSPECIFIED: Final = "FILE_TYPE_UNSPECIFIED"

_FIRST_SECOND: Final = -62135596800  # 0001-01-01, the first a Timestamp can say
_LAST_SECOND: Final = 253402300799  # 9999-12-31

_KINDS: Final = {
    stat.S_IFDIR: "d",
    stat.S_IFLNK: "L",
    stat.S_IFBLK: "D",
    stat.S_IFCHR: "Dc",
    stat.S_IFIFO: "p",
    stat.S_IFSOCK: "S",
}


class EntryReader:
    """Reads entries; owner names and permission texts are computed once each."""

    def __init__(self, users: Users) -> None:
        self._users = users
        users.refresh()
        self._permissions: dict[int, str] = {}

    def read(self, path: str) -> Entry:
        """The entry at a path, links not followed. Raises ``OSError``."""
        name = path.rpartition("/")[2] or "/"
        return self.describe(name, path, path, os.lstat(path))

    def describe(self, name: str, path: str, shown_path: str, status: os.stat_result) -> Entry:
        """The entry for what ``lstat`` said; ``shown_path`` is what the client is told."""
        mode = status.st_mode
        permissions = self._permissions.get(mode)
        if permissions is None:
            permissions = self._permissions[mode] = format_permissions(mode)
        entry: Entry = {
            "name": _printable(name),
            "type": _UNSPECIFIED,
            "path": _printable(shown_path),
            "size": status.st_size,
            "mode": mode & 0o777,
            "permissions": permissions,
            "owner": self._users.owner(status.st_uid),
            "group": self._users.group(status.st_gid),
            "modifiedTime": format_time(status.st_mtime_ns),
        }
        if stat.S_ISREG(mode):
            entry["type"] = _FILE
        elif stat.S_ISDIR(mode):
            entry["type"] = _DIRECTORY
        elif stat.S_ISLNK(mode):
            _describe_link(entry, path)
            return entry
        else:
            return entry
        if metadata := read_metadata(path):
            entry["metadata"] = metadata
        return entry

    def list(self, root: str, depth: int) -> list[Entry]:
        """All entries up to ``depth`` levels below a directory, parents first, names in order.

        The directory itself may be reached through a link; links below are not descended.
        Raises ``InvalidArgumentError`` when it is no directory, ``ResourceExhaustedError`` when
        there are more than ``MAX_ENTRIES``, and ``OSError``.
        """
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise InvalidArgumentError(f"path is not a directory: {root}")
        found: list[Entry] = []
        base = "" if root == "/" else root
        # Each level waits here with what is left of it, in reverse, so that pop gives the next.
        levels = [self._scan(base)]
        while levels:
            if not levels[-1]:
                levels.pop()
                continue
            if len(found) >= MAX_ENTRIES:
                raise ResourceExhaustedError(f"'{root}' has more than {MAX_ENTRIES} entries")
            entry, path = levels[-1].pop()
            found.append(entry)
            if path and len(levels) < depth:
                levels.append(self._scan(path))
        return found

    def _scan(self, directory: str) -> list[tuple[Entry, str]]:
        """The entries of one directory in reverse order, each with its path if one can descend."""
        names: list[tuple[bytes, os.DirEntry[str]]] = []
        try:
            with os.scandir(directory or "/") as scan:
                for item in scan:
                    names.append((os.fsencode(item.name), item))
                    if len(names) > MAX_ENTRIES:
                        raise ResourceExhaustedError(
                            f"'{directory or '/'}' has more than {MAX_ENTRIES} entries"
                        )
        except OSError as error:
            if error.errno in (errno.ENOMEM, errno.EMFILE, errno.ENFILE):
                raise
            return []  # it vanished, or it became something else
        names.sort(key=lambda pair: pair[0], reverse=True)
        entries: list[tuple[Entry, str]] = []
        for _, item in names:
            path = item.path
            try:
                status = item.stat(follow_symlinks=False)
                entry = self.describe(item.name, path, path, status)
            except OSError:
                continue  # it vanished
            entries.append((entry, path if stat.S_ISDIR(status.st_mode) else ""))
        return entries


def format_permissions(mode: int) -> str:
    """A mode as Go prints it: ``-rw-r--r--``, ``drwxr-xr-x``, ``dtrwxrwxrwx``, ``Lrwxrwxrwx``."""
    text = _KINDS.get(stat.S_IFMT(mode), "")
    for bit, letter in ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t")):
        if mode & bit:
            text += letter
    letters = "rwxrwxrwx"
    bits = "".join(letters[i] if mode & (0o400 >> i) else "-" for i in range(9))
    return (text or "-") + bits


def format_time(nanoseconds: int) -> str:
    """A time stamp in RFC 3339 with microseconds, kept within the years it can say."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    seconds = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest // 1000:06}Z"


def read_metadata(path: str | int) -> dict[str, str]:
    """What the client said about a file when it uploaded it; nothing where none can be kept."""
    try:
        names = os.listxattr(path)
    except OSError:
        return {}
    metadata: dict[str, str] = {}
    for name in names:
        if name.startswith(METADATA_PREFIX):
            try:
                value = os.getxattr(path, name)
            except OSError:
                continue  # removed meanwhile
            metadata[_printable(name[len(METADATA_PREFIX) :])] = value.decode("utf-8", "replace")
    return metadata


def _describe_link(entry: Entry, path: str) -> None:
    entry["isSymlink"] = True
    entry["mode"] = 0
    entry["symlinkTarget"] = entry["path"]
    try:
        status = os.stat(path)
        target = os.path.realpath(path, strict=True)
    except OSError:
        return  # broken, or a loop: the link stands for itself
    entry["mode"] = status.st_mode & 0o777
    entry["symlinkTarget"] = _printable(target)
    if stat.S_ISREG(status.st_mode):
        entry["type"] = _FILE
    elif stat.S_ISDIR(status.st_mode):
        entry["type"] = _DIRECTORY


def _printable(text: str) -> str:
    """Text that can be sent: bytes that are not UTF-8 become U+FFFD, as every JSON peer does."""
    if text.isascii():
        return text
    return os.fsencode(text).decode("utf-8", "replace")


def read_entry(path: str, users: Users) -> Entry:
    """One entry. Raises ``NotFoundError`` (``file not found: ...``) and other domain errors."""
    try:
        return EntryReader(users).read(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise paths.NotFoundError(f"file not found: {path}") from error
        raise paths.failure(error, f"cannot look at '{path}'") from error
