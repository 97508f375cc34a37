"""Entries of the file system as clients see them (interface 3.4, "EntryInfo values")."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import operator
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent.files import own_entries, paths
from sbx_jupyter.agent.files.parallel_listing import read_in_parallel
from sbx_jupyter.agent.workers import TimeBudget
from sbx_jupyter.errors import InvalidArgumentError, ResourceExhaustedError
from sbx_jupyter.protocol.agent import LISTING_PIECE

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sbx_jupyter.agent.users import Users

Entry = dict[str, Any]

MAX_ENTRIES: Final = 200_000
_LARGE: Final = 64 * 1024
"""Size of a directory with more entries than the agent can read while others wait."""

METADATA_PREFIX: Final = "user.e2b."

_FILE: Final = "FILE_TYPE_FILE"
_DIRECTORY: Final = "FILE_TYPE_DIRECTORY"
_UNSPECIFIED: Final = "FILE_TYPE_UNSPECIFIED"

_TYPES: Final = {stat.S_IFREG: _FILE, stat.S_IFDIR: _DIRECTORY}

_FORMAT_MASK: Final = 0o170000
_quote: Final = json.encoder.encode_basestring_ascii

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
        self._kinds: dict[int, tuple[str, str]] = {}
        self._seconds: dict[int, str] = {}
        self._shared: dict[tuple[int, int, int], str] = {}

    def read(self, path: str) -> Entry:
        """The entry at a path, links not followed. Raises ``OSError``."""
        name = path.rpartition("/")[2] or "/"
        return self.describe(name, path, path, os.lstat(path))

    def describe(self, name: str, path: str, shown_path: str, status: os.stat_result) -> Entry:
        """The entry for the result of ``lstat``; ``shown_path`` is the path in the answer."""
        mode = status.st_mode
        kind, permissions = self._kinds.get(mode) or self._describe_mode(mode)
        entry: Entry = {
            "name": _printable(name),
            "type": kind,
            "path": _printable(paths.clean(shown_path)),
            "size": status.st_size,
            "mode": mode & 0o777,
            "permissions": permissions,
            "owner": self._users.owner(status.st_uid),
            "group": self._users.group(status.st_gid),
            "modifiedTime": self._describe_time(status.st_mtime_ns),
        }
        if kind is not _UNSPECIFIED:
            if metadata := read_metadata(path):
                entry["metadata"] = metadata
        elif stat.S_ISLNK(mode):
            _describe_link(entry, path)
        return entry

    def _format(
        self, item: os.DirEntry[str], directory: str, folder: str, status: os.stat_result
    ) -> str:
        """The entry as JSON; ``folder`` is its directory as shown, encoded but not closed.

        For files and directories it is put together from parts that most entries of a directory
        share, which is three times as fast as a record and an encoder.
        """
        mode = status.st_mode
        if mode & _FORMAT_MASK not in _TYPES:
            path = f"{directory}/{item.name}"
            return json.dumps(self.describe(item.name, path, path, status), separators=(",", ":"))
        owner = (mode, status.st_uid, status.st_gid)
        shared = self._shared.get(owner)
        if shared is None:
            kind, permissions = self._kinds.get(mode) or self._describe_mode(mode)
            shared = self._shared[owner] = (
                f',"type":"{kind}","mode":{mode & 0o777},"permissions":"{permissions}"'
                f',"owner":{_quote(self._users.owner(status.st_uid))}'
                f',"group":{_quote(self._users.group(status.st_gid))},"size":'
            )
        name = item.name
        quoted = _quote(name if name.isascii() else _printable(name))
        seconds, rest = divmod(status.st_mtime_ns, 1_000_000_000)
        text = self._seconds.get(seconds) or self._describe_seconds(seconds)
        metadata = read_metadata(item.path)
        end = f'Z","metadata":{json.dumps(metadata)}}}' if metadata else 'Z"}'
        return (
            f'{{"name":{quoted}{shared}{status.st_size},"path":{folder}{quoted[1:]}'
            f',"modifiedTime":"{text}.{rest // 1000:06}{end}'
        )

    def _describe_mode(self, mode: int) -> tuple[str, str]:
        kind = _TYPES.get(stat.S_IFMT(mode), _UNSPECIFIED)
        described = self._kinds[mode] = (kind, format_permissions(mode))
        return described

    def _describe_time(self, nanoseconds: int) -> str:
        seconds, rest = divmod(nanoseconds, 1_000_000_000)
        return f"{self._seconds.get(seconds) or self._describe_seconds(seconds)}.{rest // 1000:06}Z"

    def _describe_seconds(self, seconds: int) -> str:
        # Files that were unpacked or copied together share their seconds, not their fractions.
        text = self._seconds[seconds] = format_seconds(seconds)
        return text

    def list(self, root: str, depth: int, budget: TimeBudget | None = None) -> list[str]:
        """All entries up to ``depth`` levels below a directory, parents first, names in order,
        each as JSON text.

        The directory itself may be reached through a link; links below are not descended.
        Raises ``InvalidArgumentError`` when it is no directory, ``ResourceExhaustedError`` when
        there are more than ``MAX_ENTRIES``, and ``OSError``.
        """
        status = os.stat(root)
        if not stat.S_ISDIR(status.st_mode):
            raise InvalidArgumentError(f"path is not a directory: {root}")
        budget = budget or TimeBudget()
        budget.demand(status.st_size, _LARGE)
        found: list[str] = []
        # Each level waits here with what is left of it.
        levels = [iter(self._scan("" if root == "/" else root, budget))]
        while levels:
            if len(levels) == depth:
                found.extend(entry for entry, _ in levels.pop())
            elif (step := next(levels[-1], None)) is None:
                levels.pop()
            else:
                entry, directory = step
                found.append(entry)
                if directory:
                    levels.append(iter(self._scan(directory, budget)))
            if len(found) > MAX_ENTRIES:
                raise ResourceExhaustedError(f"'{root}' has more than {MAX_ENTRIES} entries")
        return found

    def _scan(self, directory: str, budget: TimeBudget) -> list[tuple[str, str]]:
        """The entries of one directory in order, each with its path if one can descend."""
        with _inside(directory or "/") as here:
            items = _sorted_items(here, budget)
            if budget.is_lifted:
                return read_in_parallel(items, lambda half: self._read(half, directory, budget))
            return self._read(items, directory, budget)

    def _read(
        self, items: Sequence[os.DirEntry[str]], directory: str, budget: TimeBudget
    ) -> list[tuple[str, str]]:
        entries: list[tuple[str, str]] = []
        folder = _quote(_printable(paths.clean(directory) + "/"))[:-1]
        for item in items:
            budget.step()
            try:
                status = item.stat(follow_symlinks=False)
                entry = self._format(item, directory, folder, status)
            except OSError:
                continue  # it vanished
            is_directory = status.st_mode & _FORMAT_MASK == stat.S_IFDIR
            entries.append((entry, f"{directory}/{item.name}" if is_directory else ""))
        return entries


@contextlib.contextmanager
def _inside(directory: str) -> Generator[str]:
    """Work in a directory, where names are found in half the time; gives how to call it there."""
    back = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        try:
            os.chdir(directory)
        except OSError:
            yield directory
        else:
            yield "."
    finally:
        os.fchdir(back)
        os.close(back)


def _sorted_items(directory: str, budget: TimeBudget) -> list[os.DirEntry[str]]:
    """The entries of a directory, sorted by the bytes of their names; empty if it vanished."""
    try:
        with os.scandir(directory) as scan:
            items: list[os.DirEntry[str]] = []
            for item in itertools.islice(scan, MAX_ENTRIES + 1):
                budget.step()
                items.append(item)
    except OSError as error:
        if error.errno in (errno.ENOMEM, errno.EMFILE, errno.ENFILE):
            raise
        return []
    if "".join([item.name for item in items]).isascii():
        items.sort(key=operator.attrgetter("name"))
    else:
        items.sort(key=lambda item: os.fsencode(item.name))
    return items


def encode_listing(found: list[str]) -> bytes:
    """Encode the answer with these entries, and the sizes of its pieces to read it in parts."""
    starts = range(0, len(found), LISTING_PIECE)
    pieces = [",".join(found[start : start + LISTING_PIECE]) for start in starts]
    sizes = ",".join(str(len(piece)) for piece in pieces)  # the text is ASCII
    return f'{{"sizes":[{sizes}],"entries":[{",".join(pieces)}]}}'.encode("ascii")


def format_permissions(mode: int) -> str:
    """A mode as Go prints it: ``-rw-r--r--``, ``drwxr-xr-x``, ``dtrwxrwxrwx``, ``Lrwxrwxrwx``."""
    text = _KINDS.get(stat.S_IFMT(mode), "")
    for bit, letter in ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t")):
        if mode & bit:
            text += letter
    letters = "rwxrwxrwx"
    bits = "".join(letters[i] if mode & (0o400 >> i) else "-" for i in range(9))
    return (text or "-") + bits


def format_seconds(seconds: int) -> str:
    """A time in RFC 3339 up to the second, kept within the years that it can say."""
    seconds = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"


def read_metadata(path: str | int) -> dict[str, str]:
    """The metadata a client gave when it uploaded the file; empty where none can be kept."""
    try:
        names = os.listxattr(path)
    except OSError:
        return {}
    if not names:
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
    if own_entries.leads_to_own(path):
        return
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
