"""The user that an engine of root serves clients as: its id, its files, the change to it.

The data directory stays root's. The engine's group may make files in it, and its sticky bit keeps
every other entry from the engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.isolation.full_network.connections import FOLDER as FOLDER_OF_NETWORKS
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.privileged import filters
from sbx_jupyter.isolation.stored import setting_aside

FIRST_ID: Final = 1_900_000_000
"""Above the ids that containers and users get (up to 1879048191), below the last (2**31 - 1)."""

_IDS: Final = 100_000_000
OF_HELPER: Final = ("cages", "helper", FOLDER_OF_NETWORKS, "stock", "zygote")
"""Directories that the engine cannot look into."""

SHOWN: Final = ("layers", "quarantine", "sandboxes", "volumes", "volumes-removed")
"""Directories of the helper whose entries the engine may list."""

_OF_ROOT: Final = re.compile(r"[a-z]+\.lock|[a-z]+\.log|lost\+found|probe-.*")
"""Other files that stay root's: the locks and the output of the engine, which root opens.

Where ``fs.protected_regular`` is 2, root could not open them as files of another user.
"""
_SHARED: Final = 0o1770
_NEEDED: Final = {"chown": 0, "dac_override": 1, "fowner": 3, "setgid": 6, "setuid": 7}
"""The capabilities, by their numbers, that the change takes."""

_LAST_CAPABILITY: Final = 63
_CAPABILITIES_V3: Final = 0x20080522


def id_of(data_dir: Path) -> int:
    """The user and group id of the engine of a data directory: always the same one."""
    digest = hashlib.sha256(os.fsencode(data_dir.resolve())).digest()
    return FIRST_ID + int.from_bytes(digest[:8], "big") % _IDS


def why_not(uid: int) -> str | None:
    """Why this process cannot serve clients under an id; None when it can."""
    if not all(_is_mapped(uid, kind) for kind in ("uid", "gid")):
        return f"this container has no id {uid}"
    with contextlib.suppress(KeyError):
        return f"the id {uid} is that of the user {pwd.getpwuid(uid).pw_name}"
    return None


def why_not_in(data_dir: Path, owner: int) -> str | None:
    """Why this process cannot give a directory's files to another user; None when it can."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    missing = [name for name, bit in _NEEDED.items() if not effective >> bit & 1]
    if missing:
        return f"root lacks the capability {missing[0]} here"
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=data_dir) as probe:
            os.fchown(probe.fileno(), owner, owner)
    except OSError as error:
        return f"files in {data_dir} cannot be given to a user ({error.strerror})"
    return None


def _is_mapped(wanted: int, kind: str) -> bool:
    rows = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text().splitlines()]
    return any(int(row[0]) <= wanted < int(row[0]) + int(row[2]) for row in rows)


def is_taken_over(data_dir: Path, owner: int) -> bool:
    """Whether the engine's files belong to its user, and no engine of root came after it."""
    try:
        status = data_dir.stat()
    except FileNotFoundError:
        return False
    return stat.S_IMODE(status.st_mode) == _SHARED and status.st_gid == owner


def take_over(data_dir: Path, owner: int, *, is_done: bool = False) -> None:
    """Give the engine's files to its user; what sandboxes are made of stays root's.

    The mode of the directory changes last: a take-over that was cut short is done again.
    ``take_back`` is the way back. ``is_done``: as ``is_taken_over`` said
    before the directory was opened. Raises ``OSError``, and ``FailedPreconditionError`` for entries
    that are not root's.
    """
    _drop_given_networks(data_dir, owner)
    for name in OF_HELPER + SHOWN:
        folder = data_dir / name
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
            raise FailedPreconditionError(f"{folder} is not a directory of root")
        if name in SHOWN:
            os.chown(folder, 0, owner)
            folder.chmod(0o750)
    for entry in () if is_done else (data_dir / setting_aside.FOLDER).iterdir():
        if entry.is_dir() and not entry.is_symlink():
            setting_aside.show(entry, owner)
    root = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_done:
            _gather_manifests(data_dir)
        for name in () if is_done else os.listdir(root):
            if name not in OF_HELPER + SHOWN and not _OF_ROOT.fullmatch(name):
                _give(root, name, owner)
        os.fchown(root, 0, owner)
        os.fchmod(root, _SHARED)
    finally:
        os.close(root)


def _drop_given_networks(data_dir: Path, owner: int) -> None:
    """Remove the records of networks that a former version gave to the engine's user.

    They name processes to end, so they are not trusted then.
    """
    folder = data_dir / FOLDER_OF_NETWORKS
    with contextlib.suppress(FileNotFoundError):
        if folder.lstat().st_uid == owner:
            shutil.rmtree(folder)


def take_back(data_dir: Path) -> None:
    """Give the files of an engine with a user of its own back to root, which uses them next.

    That user may have put anything there: its links are removed, so that root follows none.
    Raises ``OSError``.
    """
    root = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(root).st_gid == 0 or os.geteuid() != 0:
            return
        for name in os.listdir(root):
            if name not in OF_HELPER + SHOWN and not _OF_ROOT.fullmatch(name):
                _give(root, name, 0)
        for name in SHOWN:
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, 0, 0, dir_fd=root, follow_symlinks=False)
        os.fchmod(root, 0o700)
        os.fchown(root, 0, 0)
    finally:
        os.close(root)


def _gather_manifests(data_dir: Path) -> None:
    """Move the manifests beside trees to where the engine can change them."""
    apart = data_dir / "manifests-apart"
    apart.mkdir(mode=0o700, exist_ok=True)
    found = [(path, path.parent) for path in data_dir.glob("sandboxes/*/manifest")]
    for kind in ("layers", "volumes"):
        found += [(path, path.with_suffix("")) for path in data_dir.glob(f"{kind}/*.manifest")]
    for path, tree in found:
        path.rename(apart / str(tree.relative_to(data_dir)).replace("/", ":"))


def _give(folder: int, name: str, owner: int) -> None:
    """Change the owner of an entry and all below it; of no link, and of no file with two names."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        inner = os.open(name, flags, dir_fd=folder)
        try:
            for below in os.listdir(inner):
                _give(inner, below, owner)
            os.fchown(inner, owner, owner)
        finally:
            os.close(inner)
    elif owner == 0 and stat.S_ISLNK(status.st_mode):
        os.unlink(name, dir_fd=folder)
    elif status.st_nlink == 1:
        os.chown(name, owner, owner, dir_fd=folder, follow_symlinks=False)


def become(owner: int) -> None:
    """Change this process to the engine's user, without capabilities and behind its filter.

    There must be one thread. Nothing of it can be undone. Raises ``OSError``.
    """
    for capability in range(_LAST_CAPABILITY + 1):
        with contextlib.suppress(OSError):  # this kernel has fewer
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
    os.setgroups([])
    os.setresgid(owner, owner, owner)
    os.setresuid(owner, owner, owner)
    header = _CAPABILITIES_V3.to_bytes(4, "little") + bytes(4)
    syscalls.call("capset", header, bytes(24))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    os.umask(0o077)
    filters.install_for_engine()
