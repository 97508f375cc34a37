"""What holds a program where Landlock does not: a filter that asks the keeper about some calls.

The keeper stands outside of the sandbox. Each program puts the filter on itself before its
``exec`` and hands the keeper the filter's listener; without that no program starts.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from . import system

if TYPE_CHECKING:
    from .operation import Body

_DOOR: Final = 3
"""Where the child between fork and exec has the way to the keeper."""
_ADMITTED: Final = b"1"


@dataclass(frozen=True, slots=True)
class Supervision:
    """The filter, and the socket on which the keeper takes listeners."""

    program: bytes
    door: int

    @staticmethod
    def from_setup(setup: Body) -> Supervision | None:
        """What the zygote said; None where there is no keeper to ask."""
        program = setup.get("filter")
        return Supervision(program, setup["keeper"]) if program else None

    def keep_only_door(self) -> None:
        """Close every descriptor above the standard ones but the way to the keeper."""
        if self.door != _DOOR:
            os.dup2(self.door, _DOOR, inheritable=False)
        system.close_from(_DOOR + 1)

    def enter(self) -> None:
        """Put this process under supervision, for good.

        Raises ``OSError``: EAGAIN when the sandbox has as many processes as it may.
        """
        answer, given = os.pipe2(os.O_CLOEXEC)
        listener = system.install_filter(self.program)
        with socket.socket(fileno=_DOOR) as door:
            socket.send_fds(door, [b"+"], [listener, given])
        os.close(listener)
        os.close(given)
        if os.read(answer, 1) != _ADMITTED:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        os.close(answer)
