"""Refuses the agent's own entries in procfs: it may read them, nobody else in the sandbox may.

Its maps, its program and its descriptors tell about the host, so the interface neither opens them
nor says where their links lead.
"""

from __future__ import annotations

import os
from typing import Final

from sbx_jupyter.errors import PermissionDeniedError

_MOST_LINKS: Final = 40


def is_own(path: str) -> bool:
    """Whether a path that no link is on is below what procfs has about this process."""
    return path.startswith(("/proc/1/", f"/proc/{os.getpid()}/"))


def leads_to_own(path: str) -> bool:
    """Whether a path is such an entry, or a link that leads to one."""
    for _ in range(_MOST_LINKS):
        parent = os.path.realpath(os.path.dirname(path))
        path = os.path.join(parent, os.path.basename(path))
        if is_own(path):
            return True
        try:
            path = os.path.join(parent, os.readlink(path))
        except OSError:
            return False
    return False


def refuse(fd: int, path: str) -> None:
    """Refuse a file that is one of those. Raises ``PermissionDeniedError``."""
    found = os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else ""
    if is_own(found):
        raise refusal(path)


def refusal(path: str) -> PermissionDeniedError:
    """The error for such a file."""
    return PermissionDeniedError(f"cannot open '{path}': it is about the sandbox's own agent")
