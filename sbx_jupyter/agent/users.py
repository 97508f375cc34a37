"""Looks up users and groups of the sandbox, by parsing ``/etc/passwd`` and ``/etc/group``.

The C library is not used: it loads name service modules, which hostile code can replace.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Generator

PASSWD: Final = "/etc/passwd"
GROUP: Final = "/etc/group"

_MAX_TABLE_SIZE: Final = 1 << 20
_MAX_ID: Final = (1 << 32) - 2


@dataclass(frozen=True, slots=True)
class User:
    """One line of ``/etc/passwd`` and the supplementary groups from ``/etc/group``."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...]


class _Table:
    """The fields of one colon-separated file, read again whenever the file changes."""

    def __init__(self, path: str, fields: int) -> None:
        self._path = path
        self._fields = fields
        self._version: tuple[int, ...] = ()
        self.rows: list[list[str]] = []

    def refresh(self) -> bool:
        """Read the file if it changed since the last time; whether it did."""
        try:
            status = os.stat(self._path)
            version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            version = (-1,)
        if version == self._version:
            return False
        self._version = version
        self.rows = self._parse(_read_table(self._path))
        return True

    def _parse(self, text: str) -> list[list[str]]:
        rows = (line.split(":") for line in text.splitlines() if not line.startswith("#"))
        return [row for row in rows if len(row) >= self._fields]


class Users:
    """The users of one sandbox.

    With ``virtual`` users one single id exists, id 0 or that of the engine's user: ownership is not
    changed, and entries name the owner that the kernel knows, not the one that was asked for. An
    engine's user that the files of the sandbox do not know has the name of the default user.
    """

    def __init__(self, *, virtual: bool = False, root: str = "") -> None:
        """``root`` is the directory that stands for ``/`` where nothing can be mounted."""
        self.virtual = virtual
        self._only_ids = (os.getuid(), os.getgid()) if virtual else (None, None)
        self._root = root
        self.default = "root"
        self._passwd = _Table(root + PASSWD, 6)
        self._group = _Table(root + GROUP, 4)
        self._by_name: dict[str, User] = {}
        self._user_names: dict[int, str] = {}
        self._group_names: dict[int, str] = {}

    def find(self, name: str | None) -> User:
        """The user of that name, or the default user for ``None``.

        Raises ``UnauthenticatedError`` for a name that ``/etc/passwd`` does not have.
        """
        self.refresh()
        wanted = self.default if name is None else name
        try:
            return self._by_name[wanted]
        except KeyError:
            raise UnauthenticatedError(f"invalid username: '{wanted}'") from None

    def refresh(self) -> None:
        """Look whether the files changed; call it before a series of ``owner`` and ``group``."""
        changed = self._passwd.refresh()
        changed |= self._group.refresh()
        if changed:
            self._rebuild()

    def owner(self, uid: int) -> str:
        """The name of a user id, or the number as text."""
        return self._user_names.get(uid) or (self.default if uid == self._only_ids[0] else str(uid))

    def group(self, gid: int) -> str:
        """The name of a group id, or the number as text."""
        return self._group_names.get(gid) or (
            self.default if gid == self._only_ids[1] else str(gid)
        )

    def own(self, fd: int, user: User) -> None:
        """Give an open file or directory to a user."""
        if self.virtual:
            # Nothing to change, but watchers are promised to hear of the new owner.
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode))
        else:
            os.fchown(fd, user.uid, user.gid)

    @contextlib.contextmanager
    def acting_as(self, user: User) -> Generator[None]:
        """Check access rights with the user's eyes; real and saved ids stay those of root."""
        if self.virtual or user.uid == 0:
            yield
            return
        groups, gid, uid = os.getgroups(), os.getegid(), os.geteuid()
        os.setgroups(user.groups)
        try:
            os.setegid(user.gid)
            os.seteuid(user.uid)
            yield
        finally:
            os.seteuid(uid)
            os.setegid(gid)
            os.setgroups(groups)

    def _rebuild(self) -> None:
        members: dict[str, list[int]] = {}
        self._group_names = {}
        for name, _, number, names, *_ in self._group.rows:
            if (gid := _parse_id(number)) is None:
                continue
            self._group_names.setdefault(gid, name)
            for member in names.split(","):
                members.setdefault(member, []).append(gid)
        self._by_name, self._user_names = {}, {}
        for name, _, user_number, group_number, _, home, *_ in self._passwd.rows:
            uid, gid = _parse_id(user_number), _parse_id(group_number)
            if uid is None or gid is None or not name or name in self._by_name:
                continue
            groups = tuple(dict.fromkeys([gid, *members.get(name, [])]))
            home = home if home.startswith("/") and "\0" not in home else "/"
            self._by_name[name] = User(name, uid, gid, self._root + home, groups)
            self._user_names.setdefault(uid, name)


def _parse_id(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    number = int(text)
    return number if number <= _MAX_ID else None


def _read_table(path: str) -> str:
    """The text of a small regular file; nothing for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, _MAX_TABLE_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
