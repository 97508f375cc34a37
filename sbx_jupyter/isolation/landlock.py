"""Landlock: a process gives up files, TCP, signals and abstract sockets for good."""

from __future__ import annotations

from typing import Final

from . import syscalls

_VERSION_FLAG: Final = 1


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none or it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _VERSION_FLAG)
    except OSError:
        return 0
