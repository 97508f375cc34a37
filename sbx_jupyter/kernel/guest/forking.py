"""Forks a process for each kernel that is asked for.

Requests are lines of JSON on its input, and what it says are lines of JSON on its output:

``{"id", "folder", "connection", "token", "argv", "envs", "cwd"}`` starts a kernel; an empty program
in ``argv`` is this Python, and a ``cwd`` that is not there is left out
    -> ``{"id", "port"}`` when its channels are served, or ``{"id", "error"}``
    -> ``{"id", "exit"}`` when it has ended
``{"id", "kill": true}`` ends a kernel and all that it started
``{"id", "ask": true}``
    -> ``{"id", "exit"}`` again, if it has ended
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
from pathlib import Path
from typing import Any

from .processes import die_with_parent, end_with, exit_code, say, signal_group
from .sessions import run_session

_MAX_REQUEST = 1024 * 1024


class Zygote:
    """Forks a process for each kernel, and says how each ended."""

    def __init__(self) -> None:
        self._running: dict[int, int] = {}
        """The number of the request by process id."""
        self._ended: dict[int, int] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._rest = b""

    def run(self) -> None:
        """Serve until the input ends; then end with all kernels."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        while True:
            ready, _, _ = select.select([0, self._wake_read], [], [])
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                self._reap()
            if 0 in ready and not self._read():
                break
        for pid in self._running:
            signal_group(pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Carry out a request; false at the end of the input."""
        chunk = os.read(0, 65536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._do(json.loads(line))
        return bool(chunk) and len(self._rest) <= _MAX_REQUEST

    def _do(self, request: dict[str, Any]) -> None:
        number = request["id"]
        if request.get("ask"):
            if number in self._ended:
                say(id=number, exit=self._ended[number])
        elif request.get("kill"):
            for pid, each in self._running.items():
                if each == number:
                    signal_group(pid, signal.SIGKILL)
        elif (program := request["argv"][0]) and shutil.which(program) is None:
            say(id=number, error=f"there is no {program} in the sandbox{_how_to_show(program)}")
        else:
            self._fork(request)

    def _fork(self, request: dict[str, Any]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            say(id=request["id"], error=f"no process can be started: {error.strerror}")
            return
        if pid:
            self._running[pid] = request["id"]
            return
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        die_with_parent()
        end_with(run_session, request)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (number := self._running.pop(pid, None)) is not None:
                self._ended[number] = exit_code(status)
                say(id=number, exit=self._ended[number])


def _how_to_show(program: str) -> str:
    """A hint how to show a program's environment of the machine in the sandbox; else empty."""
    path = Path(program)
    if not path.is_absolute() or path.parent.name != "bin":
        return ""
    prefix = path.parent.parent
    return f"; --SandboxProvisioner.show={prefix} shows it that environment, read-only"
