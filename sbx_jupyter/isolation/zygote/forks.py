"""Forks of the zygote, and what it exchanges with a process that it has just forked.

Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import wire
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.zygote import namespaces

if TYPE_CHECKING:
    from collections.abc import Generator

_ADJUSTMENT: Final = "100"
"""Thousandths of the memory that a process counts as using beside its own."""


def fork_sandbox(cgroup: int | None) -> tuple[int, int]:
    """Fork into all namespaces of a sandbox: see ``syscalls.fork_into``."""
    return syscalls.fork_into(namespaces.NAMESPACES, cgroup)


def be_killed_first() -> None:
    """Let the kernel end this process and those below before the machine's own (interface G, 21).

    Only for want of memory, and only where the machine lets it.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_ADJUSTMENT)


def keep_only(*fds: int) -> list[int]:
    """Move the descriptors to 3, 4, ... and close every other one. Raises ``OSError``."""
    high = [os.dup2(fd, 200 + index) for index, fd in enumerate(fds)]
    kept = [os.dup2(fd, 3 + index, inheritable=False) for index, fd in enumerate(high)]
    syscalls.close_range(3 + len(fds), 0xFFFFFFFF)
    return kept


def close_all_but(*fds: int) -> None:
    """Close all but the standard streams and these descriptors. Raises ``OSError``."""
    first = 3
    for fd in sorted(fds):
        syscalls.close_range(first, fd - 1)
        first = fd + 1
    syscalls.close_range(first, 0xFFFFFFFF)


@contextlib.contextmanager
def closing(fds: list[int]) -> Generator[list[int]]:
    """Close the descriptors at the end."""
    try:
        yield fds
    finally:
        wire.close_all(fds)


def wait_for_release(gate: int) -> list[int]:
    """Wait in a forked sandbox; ends the process when it is not to go on."""
    with socket.socket(fileno=gate) as opened:
        said, ancillary, _, _ = opened.recvmsg(1, wire.ANCILLARY_SIZE, socket.MSG_CMSG_CLOEXEC)
    if said != b"1":
        os._exit(1)
    return wire.descriptors(ancillary)


def last_words(report: int, text: str) -> None:
    """Tell why set-up failed, if anybody still asks."""
    try:
        os.write(report, text.encode()[-4000:])
    except OSError:
        return  # the engine was told that set-up succeeded, or is gone
