"""Confines programs where Landlock does not: by a filter that asks the keeper about some calls.

The keeper stands outside of the sandbox. Each program puts the filter on itself before its
``exec`` and hands the keeper the filter's listener; without that no program starts. When the keeper
dies, its guardian ends the sandbox, and so does the agent, in case both were killed at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import system
from sbx_jupyter.agent.keeper_requests import DONE, PROGRAM, request

if TYPE_CHECKING:
    from typing import NoReturn

    from sbx_jupyter.agent.operation import Body

_KEEPER_SOCKET: Final = 3
"""The descriptor of the keeper's socket in the child, between fork and exec."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """The filter, and the socket on which the keeper takes listeners."""

    program: bytes
    keeper_socket: int

    @staticmethod
    def from_setup(setup: Body) -> Supervision | None:
        """Take the supervision from the zygote's setup; None where there is no keeper to ask."""
        program = setup.get("filter")
        return Supervision(program, setup["keeper"]) if program else None

    def outlive_keeper(self) -> bool:
        """Go on when the keeper dies, so that this process can end the sandbox then.

        Says whether it can: the kernel must keep its signals within the sandbox. The end of the
        keeper is seen at the ``keeper_socket``. Raises ``OSError``.
        """
        try:
            os.kill(os.getppid(), 0)
        except PermissionError:
            # Not SIGKILL, as before: and a program may have stopped this process.
            system.set_parent_death_signal(signal.SIGCONT)
            return True
        except ProcessLookupError:
            pass
        return False

    @staticmethod
    def end_all() -> NoReturn:
        """End every process of the sandbox, this one last; only after ``outlive_keeper``."""
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)  # all that it may signal: a fork cannot escape it
        os._exit(0)

    def keep_only_keeper_socket(self) -> None:
        """Close every descriptor above the standard ones but the way to the keeper."""
        if self.keeper_socket != _KEEPER_SOCKET:
            os.dup2(self.keeper_socket, _KEEPER_SOCKET, inheritable=False)
        system.close_from(_KEEPER_SOCKET + 1)

    def enter(self) -> None:
        """Put this process under supervision, for good.

        Raises ``OSError``: EAGAIN when the sandbox has as many processes as it may.
        """
        answer, given = os.pipe2(os.O_CLOEXEC)
        # Made before the filter: it asks about the socket, and nobody could answer that yet.
        with socket.socket(fileno=_KEEPER_SOCKET) as keeper_socket:
            listener = system.install_filter(self.program)
            socket.send_fds(keeper_socket, [request(PROGRAM)], [listener, given])
        os.close(listener)
        os.close(given)
        if os.read(answer, 1) != DONE:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        os.close(answer)
