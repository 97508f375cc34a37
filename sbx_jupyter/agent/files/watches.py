"""Watches directories: the agent adds inotify watches for its paths, the engine reads them.

One inotify instance serves all watchers of the sandbox, since the machine has few of them. Watchers
of one directory share its watch; the engine, which reads the events, knows who needs which.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import system
from sbx_jupyter.agent.files import paths
from sbx_jupyter.agent.workers import BudgetExceeded, TimeBudget
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, see

if TYPE_CHECKING:
    from sbx_jupyter.agent.files.files import Files
    from sbx_jupyter.agent.operation import Answer, Body
    from sbx_jupyter.agent.users import Users


MAX_WATCHES: Final = 256
_BEGUN: Final = "begun"
"""The field of a request by which a worker knows the watch that the agent made for it."""

_MASK: Final = (
    system.IN_CREATE
    | system.IN_MODIFY
    | system.IN_ATTRIB
    | system.IN_DELETE
    | system.IN_MOVED_FROM
    | system.IN_MOVED_TO
    | system.IN_DELETE_SELF
    | system.IN_MOVE_SELF
    | system.IN_EXCL_UNLINK
    | system.IN_ONLYDIR
)
_NETWORK_FILE_SYSTEMS: Final = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x73757245: "Coda",
    0x564C: "NCP",
}
_VANISHED: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG)


@dataclass(frozen=True, slots=True)
class _Watch:
    path: str
    recursive: bool
    is_guarded: bool
    """Whether the right to read a folder is to be shown first: Landlock does not look at it."""


@dataclass(slots=True)
class _Armed:
    """The result of one round of arming."""

    wds: dict[int, str] = field(default_factory=dict[int, str])
    found: list[str] = field(default_factory=list[str])


class Watches:
    """The watches of one sandbox."""

    def __init__(self, users: Users, files: Files, budget: TimeBudget) -> None:
        self._users = users
        self._budget = budget
        self._files = files
        self._watches: dict[int, _Watch] = {}
        self._last_id = 0
        self._fd = -1
        """The inotify instance, as long as there is a watch."""

    def watch(self, body: Body) -> Answer:
        """Start to watch a directory.

        Raises ``NotFoundError``, ``InvalidArgumentError`` if it is not a directory or on a network
        file system, ``ResourceExhaustedError``.
        """
        if (begun := body.get(_BEGUN)) is not None:  # a worker continues an earlier try
            return self._described(begun, self._arm(self._watches[begun], "."))
        path = self._files.locate(body["path"], self._users.find(body.get("user")))
        _check_directory(path, allow_network=bool(body.get("allow_network_mounts")))
        if len(self._watches) >= MAX_WATCHES:
            raise ResourceExhaustedError(f"a sandbox can have {MAX_WATCHES} watchers at most")
        self._open()
        watch = _Watch(path, bool(body.get("recursive")), self._files.is_confined)
        self._last_id += 1
        self._watches[self._last_id] = watch
        try:
            armed = self._arm(watch, ".")
        except BudgetExceeded:
            body[_BEGUN] = self._last_id
            raise
        except BaseException:
            self._forget(self._last_id)
            raise
        return self._described(self._last_id, armed)

    def add(self, body: Body) -> Answer:
        """Arm a folder that appeared below a watched one, and say what it holds already."""
        watch = self._find(body["watch"])
        folder = body["folder"]
        paths.check(folder)
        if folder.startswith("/") or ".." in folder.split("/"):
            raise InvalidArgumentError(f"not a folder below the watched one: {folder}")
        armed = self._arm(watch, folder)
        return {"wds": armed.wds, "found": armed.found}, ()

    def remove(self, body: Body) -> Answer:
        """End a watcher; when it was the last, its inotify instance ends too."""
        self._find(body["watch"])
        self._forget(body["watch"])
        return {"left": len(self._watches)}, ()

    def disarm(self, body: Body) -> Answer:
        """Stop watching folders that no watcher needs any more."""
        for wd in body["wds"]:
            try:
                system.inotify_rm_watch(self._fd, wd)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EBADF):  # it is gone already
                    raise
        return {}, ()

    def end_all(self) -> list[Body]:
        """End every watch, since a new engine cannot read on where the last one stopped."""
        ended: list[Body] = [
            {"watch": number, "path": watch.path, "recursive": watch.recursive}
            for number, watch in self._watches.items()
        ]
        for number in list(self._watches):
            self._forget(number)
        return ended

    def descriptor_of(self, body: Body) -> int:
        """The descriptor that a worker needs for a request about a watch; -1 for another."""
        number = body.get(_BEGUN) or body.get("watch") or 0
        return self._fd if number in self._watches else -1

    def give_up(self, body: Body) -> None:
        """Undo the watch of a request whose worker did not succeed."""
        if (number := body.get(_BEGUN, -1)) in self._watches:
            self._forget(number)

    def _open(self) -> None:
        if self._fd >= 0:
            return
        try:
            self._fd = system.inotify_init()
        except OSError as error:
            raise _shortage(error, "fs.inotify.max_user_instances") from error

    def _forget(self, number: int) -> None:
        del self._watches[number]
        if not self._watches:
            os.close(self._fd)
            self._fd = -1

    def _arm(self, watch: _Watch, folder: str) -> _Armed:
        return _arm(self._fd, watch, folder, self._budget)

    def _described(self, number: int, armed: _Armed) -> Answer:
        path = self._watches[number].path
        return {"watch": number, "path": path, "wds": armed.wds}, [self._fd]

    def _find(self, number: int) -> _Watch:
        try:
            return self._watches[number]
        except (KeyError, TypeError):
            raise NotFoundError(f"watcher with id {number} not found") from None


def _check_directory(path: str, *, allow_network: bool) -> None:
    try:
        status = os.stat(path)
        kind = system.file_system_kind(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NotFoundError(f"path {path} not found") from error
        raise paths.failure(error, f"cannot watch '{path}'") from error
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidArgumentError(f"path {path} is not a directory")
    if kind in _NETWORK_FILE_SYSTEMS and not allow_network:
        name = _NETWORK_FILE_SYSTEMS[kind]
        raise InvalidArgumentError(f"cannot watch path on network filesystem ({name}): {path}")


def _arm(fd: int, watch: _Watch, folder: str, budget: TimeBudget) -> _Armed:
    """Watch a folder, then look at what it holds, so that nothing falls in between."""
    armed = _Armed()
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        budget.step()
        is_root = folder == "."
        path = watch.path if is_root else os.path.join(watch.path, folder)
        mask = _MASK if is_root else _MASK | system.IN_DONT_FOLLOW
        try:
            armed.wds[_add(fd, path, mask, is_guarded=watch.is_guarded)] = folder
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise _shortage(error, "fs.inotify.max_user_watches") from error
            if error.errno in _VANISHED and not is_root:
                continue
            raise paths.failure(error, f"cannot watch '{path}'") from error
        if watch.recursive:
            prefix = "" if is_root else folder + "/"
            names, folders = _look(path, budget)
            armed.found.extend(prefix + name for name in names)
            waiting.extend(prefix + name for name in reversed(folders))
    return armed


def _add(fd: int, path: str, mask: int, *, is_guarded: bool) -> int:
    if not is_guarded:
        return system.inotify_add_watch(fd, path, mask)
    follow = os.O_NOFOLLOW if mask & system.IN_DONT_FOLLOW else 0
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | follow)
    try:
        # Watch the folder that was opened, whatever the path leads to by now.
        os.fchdir(folder)
        return system.inotify_add_watch(fd, ".", mask)
    finally:
        os.close(folder)
        os.chdir("/")


def _look(path: str, budget: TimeBudget) -> tuple[list[str], list[str]]:
    """The names in a folder, and those of them that are folders."""
    try:
        with os.scandir(path) as scan:
            items: list[tuple[str, bool]] = []
            for item in scan:
                budget.step()
                items.append((item.name, item.is_dir(follow_symlinks=False)))
    except OSError:
        return [], []  # it vanished: its watch will say so
    items.sort()
    return [name for name, _ in items], [name for name, is_dir in items if is_dir]


def _shortage(error: OSError, setting: str) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"the machine has no more inotify watches to give ({error.strerror}); "
        f"raise the sysctl {setting}{see('threat-model')}"
    )
