"""Finds the private entries of host directories, which sandboxes that see these must not see.

The walk is made once per zygote, so a sandbox costs no more for it. Entries that become private
later are hidden by the next zygote. Standard library only.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRIVATE_NAMES: Final = frozenset({
    "pip.conf", "pip.ini", ".pypirc", ".netrc", "_netrc", ".git-credentials", ".npmrc", ".pgpass",
    ".my.cnf", ".env", ".condarc", "condarc", "conda-meta", ".ssh", ".gnupg", ".aws", ".azure",
    ".docker", ".kube", "id_rsa", "id_ecdsa", "id_ed25519",
})  # fmt: skip
"""Files and directories that often hold credentials, or tell about other environments."""

_IN_ETC: Final = frozenset({"jupyter", "npmrc"})
_BESIDE_CONDA_META: Final = frozenset({"envs", "pkgs"})
_MARKS_OF_ENVIRONMENTS: Final = frozenset({"conda-meta", "pyvenv.cfg"})
_MARKS_OF_HOMES: Final = frozenset({".bash_history", ".bashrc", ".config", ".profile", ".ssh"})
_SHOWN_OF_HOMES: Final = frozenset({
    "bin", "include", "lib", "lib32", "lib64", "libexec", "pyvenv.cfg", "sbin", "share",
})  # fmt: skip
"""Entries shown of a home directory that is the prefix of the engine's Python."""

_KEYS: Final = (".key", ".pem")
_MAX_KEY: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    """Below the root of the tree; ``""`` is the root."""
    shows_nothing: bool
    """Whether only its entries on the way to the engine's own Python are shown."""


def private_entries(root: str, shown_at: str, needed: Iterable[str]) -> list[str]:
    """The entries below ``root`` to hide, as sorted paths relative to it.

    ``root`` is the tree as it is reached now, ``shown_at`` its path in the sandboxes; what leads to
    the ``needed`` paths is not hidden. Hidden are entries that others may not read, those named
    like credentials, private keys, other Python environments, sockets and devices. Where others
    may not read ``root`` itself, the modes below it mean nothing to them: then the group's are
    looked at, or none. Raises ``OSError`` when ``root`` cannot be read.
    """
    prefix = shown_at.rstrip("/") + "/"
    kept = {path.removeprefix(prefix) for path in needed if path.startswith(prefix)}
    return _Walk(root, kept).run()


class _Walk:
    def __init__(self, root: str, kept: set[str]) -> None:
        self._root = root
        self._kept = kept
        self._leading = {
            path[:end]
            for path in kept
            for end in range(1, len(path) + 1)
            if end == len(path) or path[end] == "/"
        }
        mode = os.stat(root).st_mode
        self._readable = next((bits for bits in (0o005, 0o050) if mode & bits == bits), 0)
        self._hidden: list[str] = []
        self._waiting = [_Folder("", shows_nothing=False)]

    def run(self) -> list[str]:
        while self._waiting:
            self._look(self._waiting.pop())
        return sorted(self._hidden)

    def _look(self, folder: _Folder) -> None:
        path = folder.path
        try:
            with os.scandir(os.path.join(self._root, path)) as listing:
                entries = list(listing)
        except FileNotFoundError:
            if not path:
                raise
            return  # removed meanwhile: there is nothing to hide
        except OSError:
            if not path:
                raise
            self._hidden.append(path)  # changed meanwhile, or closed to its own owner
            return
        names = {entry.name for entry in entries}
        if path and path not in self._leading and names & _MARKS_OF_ENVIRONMENTS:
            self._hidden.append(path)
            return
        at_top = not path or path in self._kept
        of_home = at_top and bool(names & _MARKS_OF_HOMES)
        in_etc = path.rpartition("/")[2] == "etc"
        for entry in entries:
            name = entry.name
            inner = f"{path}/{name}" if path else name
            hide = (
                folder.shows_nothing
                or name in PRIVATE_NAMES
                or (in_etc and name in _IN_ETC)
                or (at_top and name[0] == ".")
                or (of_home and name not in _SHOWN_OF_HOMES)
                or (name in _BESIDE_CONDA_META and "conda-meta" in names)
                or self._is_private(entry)
            )
            if inner in self._leading:
                self._waiting.append(_Folder(inner, hide and inner not in self._kept))
            elif hide:
                self._hidden.append(inner)
            elif entry.is_dir(follow_symlinks=False):
                self._waiting.append(_Folder(inner, shows_nothing=False))

    def _is_private(self, entry: os.DirEntry[str]) -> bool:
        if entry.is_symlink():
            return False  # it has no mode, and what it leads to is looked at for itself
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False  # removed meanwhile, as drafts of other programs are
        except OSError:
            return True
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return mode & self._readable != self._readable
        needed = self._readable & 0o044
        if not stat.S_ISREG(mode) or mode & needed != needed:
            return True
        return (
            entry.name.endswith(_KEYS)
            and status.st_size <= _MAX_KEY
            and _is_private_key(entry.path)
        )


def _is_private_key(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with os.fdopen(fd, "rb") as file:
        return b"PRIVATE KEY" in file.read(_MAX_KEY)


def split(hidden: Sequence[str], root: str) -> tuple[list[str], list[str]]:
    """The entries of ``root`` without hidden ones below, and the directories above hidden ones."""
    on_the_way = {""} if hidden else set[str]()
    for path in hidden:
        parts = path.split("/")
        on_the_way.update("/".join(parts[:end]) for end in range(1, len(parts)))
    if not on_the_way:
        return [root], []
    closed = {*hidden, *on_the_way}
    whole = [
        f"{root}/{inner}"
        for folder in on_the_way
        for name in os.listdir(f"{root}/{folder}")
        if (inner := f"{folder}/{name}" if folder else name) not in closed
        and not os.path.islink(f"{root}/{inner}")
    ]
    return whole, [f"{root}/{folder}" for folder in sorted(on_the_way)]
