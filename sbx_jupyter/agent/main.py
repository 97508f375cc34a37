"""PID 1 of a sandbox: answers the engine, reaps children, and waits.

The agent is forked from a warm zygote after the root file system was changed, so everything that
it will ever import is imported here. It has one thread, and no system call that it makes can wait
for hostile code, but for the start of a program: a program of the same user can hold that up for
half a second (``call_list``).
"""

from __future__ import annotations

# Codecs are modules too, and are otherwise imported when first used.
import encodings.ascii
import encodings.idna
import encodings.latin_1
import encodings.utf_8
import gc
import linecache
import os
import signal
import socket
import stringprep
import traceback
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import system
from sbx_jupyter.agent.loop import Agent
from sbx_jupyter.agent.processes.launch import IGNORED_SIGNALS

if TYPE_CHECKING:
    from typing import NoReturn

    from sbx_jupyter.agent.operation import Body


_PRELOADED: Final = (
    encodings.ascii,
    encodings.idna,
    encodings.latin_1,
    encodings.utf_8,
    linecache,
    stringprep,
)

_GARBAGE_THRESHOLD: Final = 50_000


def _hold_standard_descriptors() -> None:
    """Make sure that 0, 1 and 2 are taken, so that no pipe of a child ends up there."""
    while True:
        fd = os.open("/dev/null", os.O_RDWR)
        if fd > 2:
            os.close(fd)
            return


def _ignore_signals() -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    system.reset_library_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def run(listener_fd: int, setup: Body) -> NoReturn:
    """Be the agent of a sandbox; ``setup`` says ``sandbox_id``, ``users`` and ``landlock``.

    The descriptor is a listening SEQPACKET socket on which engines come and go.
    """
    _ignore_signals()
    _hold_standard_descriptors()
    # What the zygote made stays shared with it; a large listing is not searched for cycles.
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    os.umask(0o022)
    os.set_inheritable(listener_fd, False)
    listener = socket.socket(fileno=listener_fd)
    listener.setblocking(False)
    try:
        Agent(listener, setup).serve()
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        os._exit(1)
