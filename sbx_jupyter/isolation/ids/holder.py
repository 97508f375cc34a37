"""The process that keeps the blocks of ids of living sandboxes locked.

It outlives the engine and the zygote that forked it; without a zygote it ends after the last of its
sandboxes. Neither the lock nor a way to the registry is ever inside of a sandbox. Standard
library only, for the zygote.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import socket
from typing import TYPE_CHECKING, Final, NoReturn

from sbx_jupyter.agent import wire
from sbx_jupyter.isolation.ids import blocks
from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from sbx_jupyter.isolation.ids.blocks import Block

NAME: Final = "sbx-id-holder"


class Holder:
    """The zygote's side of the process."""

    def __init__(self) -> None:
        """Fork the process. Raises ``OSError``."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            _become(theirs.detach())
        theirs.close()

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process has ended."""
        return self._socket.fileno()

    def keep(self, pidfd: int, block: Block) -> None:
        """Hold ``block`` until the process of ``pidfd`` has ended; the caller's stay open.

        The first process of a process namespace ends after all others in it. Raises ``OSError``
        when the holder is gone.
        """
        wire.send(self._socket, {"base": block.base}, [pidfd, block.lock])

    def close(self) -> None:
        """Leave the process alone."""
        self._socket.close()


def _become(control: int) -> NoReturn:
    """Turn this fork into the holder: with nothing open but its socket."""
    gc.disable()  # it would only copy what is shared with the zygote
    os.setsid()
    os.chdir("/")
    os.dup2(control, 3, inheritable=False)
    syscalls.close_range(4, 0xFFFFFFFF)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    syscalls.name_process(NAME)
    hold(socket.socket(fileno=3))
    os._exit(0)


def hold(control: socket.socket) -> None:
    """Hold what arrives, until the other end has closed and nothing is held any more."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    held: dict[int, Block] = {}
    listening = True
    while listening or held:
        for fd, _ in poll.poll():
            if fd != control.fileno():
                poll.unregister(fd)
                block = held.pop(fd)
                blocks.give_back(block)
                wire.close_all([fd, block.lock])
            elif (received := wire.receive(control)) is None:
                poll.unregister(control)
                listening = False
            else:
                body, (pidfd, lock) = received
                held[pidfd] = blocks.Block(body["base"], lock)
                poll.register(pidfd, select.POLLIN)
