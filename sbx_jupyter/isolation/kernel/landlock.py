"""Landlock: a process gives up access to files, TCP, signals and abstract sockets permanently.

Landlock does not cover sockets other than TCP (``seccomp`` denies them), changes of modes and times
of files of the same id (``shared_ids`` has the keeper make them), and ``stat`` of known paths
(nothing prevents that; the tier's report states it).
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION_FLAG: Final = 1
_RULE_PATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FIRST_VERSION: Final = (1 << 13) - 1
_READ_ONLY: Final = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_ALL: Final = _FIRST_VERSION | _REFER | _TRUNCATE | _IOCTL_DEVICE
_TCP: Final = 0b11
_SCOPES: Final = 0b11  # abstract sockets, signals

NEEDED_ABI: Final = 1
"""Linux 5.13. A filter and the keeper refuse what older versions of Landlock leave open."""
TRUNCATE_ABI: Final = 3
"""Linux 6.2: truncating a file is a right of its own."""
SCOPED_ABI: Final = 6
"""Linux 6.12: signals to processes outside are refused, and abstract sockets."""
_REFER_ABI: Final = 2
_TCP_ABI: Final = 4
_IOCTL_ABI: Final = 5


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none or it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(*, writable: Iterable[str], readable: Iterable[str], version: int) -> None:
    """Confine this process and all that it starts; only the named paths are in reach.

    ``version`` is that of Landlock to use. Needs no_new_privs. Raises ``OSError``.
    """
    tcp = _TCP if version >= _TCP_ABI else 0
    scopes = _SCOPES if version >= SCOPED_ABI else 0
    ruleset = _create(version, tcp, scopes, ((_ALL, writable), (_READ_ONLY, readable)))
    try:
        enter(ruleset)
    finally:
        os.close(ruleset)


def files_only(
    *,
    writable: Iterable[str],
    readable: Iterable[str],
    listed: Iterable[str] = (),
    version: int,
) -> int:
    """A ruleset about files that processes can ``enter`` besides ``restrict``: both must allow.

    Of the directories in ``listed`` and below only names can be read. Returns a descriptor. Raises
    ``OSError``.
    """
    rules = ((_ALL, writable), (_READ_ONLY, readable), (_READ_DIR, listed))
    return _create(version, 0, 0, rules)


def enter(ruleset: int) -> None:
    """Confine this process by a ruleset; needs no_new_privs. Raises ``OSError``."""
    syscalls.call("landlock_restrict_self", ruleset, 0)


def _rights(version: int) -> int:
    """The rights to files that a version knows."""
    rights = _FIRST_VERSION
    for right, since in (
        (_REFER, _REFER_ABI), (_TRUNCATE, TRUNCATE_ABI), (_IOCTL_DEVICE, _IOCTL_ABI),
    ):  # fmt: skip
        rights |= right if version >= since else 0
    return rights


def _create(version: int, tcp: int, scopes: int, rules: Iterable[tuple[int, Iterable[str]]]) -> int:
    known = _rights(version)
    # An older kernel takes a record that it does not know the end of, if that is zero.
    attributes = struct.pack("QQQ", known, tcp, scopes)
    ruleset = syscalls.call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for rights, paths in rules:
            for path in paths:
                _allow(ruleset, rights & known, path)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def _allow(ruleset: int, rights: int, path: str) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # what is not there or closed anyway needs no permission
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        if not rights:
            return
        record = struct.pack("=Qi", rights, fd)
        syscalls.call("landlock_add_rule", ruleset, _RULE_PATH, record, 0)
    finally:
        os.close(fd)
