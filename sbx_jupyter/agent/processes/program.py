"""Describes a program to be started, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbx_jupyter.agent.processes.supervision import Supervision
    from sbx_jupyter.agent.users import User

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Launch:
    """All that the child needs, prepared before the fork so that nothing can fail after it."""

    argv: list[bytes]
    environment: dict[bytes, bytes]
    cwd: bytes
    user: User
    virtual: bool
    open_files: int
    """The program's hard and soft limit of open files; the agent's own is much higher."""
    supervision: Supervision | None
