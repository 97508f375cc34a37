"""Starts a helper, and another one when it dies, for an engine that may start none.

The engine gets a socket to each over the control socket, and ends both by closing that. It takes
no message, and runs under the system call filter of its helpers, which inherit that. Standard
library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from sbx_jupyter.isolation.privileged import filters

if TYPE_CHECKING:
    from collections.abc import Sequence

_IMPORT: Final = "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); "
_SUPERVISE: Final = (
    _IMPORT + "from sbx_jupyter.isolation.privileged.supervisor import main; "
    "main(int(sys.argv[2]), json.loads(sys.argv[1]), sys.argv[3])"
)
_HELP: Final = (
    _IMPORT + "from sbx_jupyter.isolation.privileged.helper import main; "
    "main(int(sys.argv[2]), sys.argv[3])"
)
_SHORT_LIFE: Final = 0.5
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
"""Seconds before the next helper when several in a row died at once; twice as long each time."""


class Supervisor(NamedTuple):
    """A running supervisor: its process, and the socket whose end ends it."""

    process: subprocess.Popen[bytes]
    control: socket.socket


def start_supervisor(options: str) -> Supervisor:
    """Start a supervisor with the options of its helpers. Raises ``OSError``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        return Supervisor(_execute(_SUPERVISE, sys.path, theirs, options, "-S"), ours)


def main(descriptor: int, path: Sequence[str], options: str) -> NoReturn:
    """Keep a helper running until the control socket closes."""
    filters.install_for_helper()
    control = socket.socket(fileno=descriptor)
    pause = 0.0
    while True:
        since = time.monotonic()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # With site, which knows a virtual environment: sandboxes are to see the engine's.
        helper = _execute(_HELP, path, theirs, options)
        theirs.close()
        with contextlib.suppress(OSError):  # the engine is gone, which the next step finds
            socket.send_fds(control, [b"helper"], [ours.fileno()], socket.MSG_NOSIGNAL)
        ours.close()
        _wait(control, helper)
        if time.monotonic() - since >= _SHORT_LIFE:
            pause = 0.0
        elif _is_closed(control, pause):
            os._exit(0)
        else:
            pause = min(max(_FIRST_PAUSE, pause * 2), _LONGEST_PAUSE)


def _wait(control: socket.socket, helper: subprocess.Popen[bytes]) -> None:
    """Return when the helper has died; end with it when the engine has closed the socket."""
    ending = select.poll()
    pidfd = os.pidfd_open(helper.pid)
    ending.register(pidfd, select.POLLIN)
    ending.register(control, select.POLLIN)
    closed = control.fileno() in {found for found, _ in ending.poll()}
    helper.wait()
    os.close(pidfd)
    if closed:
        os._exit(0)


def _is_closed(control: socket.socket, patience: float) -> bool:
    return bool(select.select([control], [], [], patience)[0])


def _execute(
    program: str, path: Sequence[str], sock: socket.socket, options: str, *flags: str
) -> subprocess.Popen[bytes]:
    """Run a program in a fresh interpreter that finds the same modules."""
    package = str(Path(__file__).parents[3])
    folders = [package, *(str(Path(folder)) for folder in path if folder)]
    return subprocess.Popen(
        [sys.executable, "-I", *flags, "-X", "utf8", "-c", program, json.dumps(folders),
         str(sock.fileno()), options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
        pass_fds=[sock.fileno()],
        start_new_session=True,
    )  # fmt: skip
