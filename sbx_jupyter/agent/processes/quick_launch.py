"""Starts a program by a list of system calls in a child that is no copy of the agent."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import struct
import termios
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.processes.call_list import CallList, TooLongError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.agent.processes.program import Launch

_MOST_CANDIDATES: Final = 32
_DEFAULT_ACTION: Final = bytes(32)
_SIG_SETMASK: Final = 2
_PR_SET_DUMPABLE: Final = 4
_EVERY_DESCRIPTOR: Final = 0xFFFFFFFF


class QuickLauncher:
    """Starts programs where the machine lets it and no child is stuck in the kernel."""

    def __init__(self, changed_signals: Sequence[int]) -> None:
        """``changed_signals`` are those that programs get the default actions of again."""
        self._changed_signals = changed_signals
        self._calls: CallList | None = None
        with contextlib.suppress(OSError):
            self._calls = CallList()

    def start(
        self, launch: Launch, candidates: Sequence[bytes], stdio: tuple[int, int, int], is_pty: bool
    ) -> int | None:
        """The process id of the program, which runs by then.

        None when anything about it is unusual or wrong: a fork then does it or says what is wrong.
        Raises ``OSError`` when there cannot be one more process.
        """
        if self._calls is None or not self._calls.is_usable or launch.supervision:
            return None
        program = _find(launch, candidates)
        if program is None:
            return None
        self._calls.clear()
        try:
            self._fill(self._calls, launch, program, stdio, is_pty=is_pty)
            return self._calls.run()
        except TooLongError:
            return None

    def _fill(
        self,
        calls: CallList,
        launch: Launch,
        program: bytes,
        stdio: tuple[int, int, int],
        *,
        is_pty: bool,
    ) -> None:
        for target, fd in enumerate(stdio):
            # None of them is below 3, which the agent holds open, so none is hit before its turn.
            calls.add("dup3", fd, target, 0)
        if is_pty:
            calls.add("setsid")
            calls.add("ioctl", 0, termios.TIOCSCTTY, 0)
        else:
            calls.add("setpgid", 0, 0)
        action = calls.store(_DEFAULT_ACTION)
        for number in self._changed_signals:
            calls.add("rt_sigaction", number, action, 0, 8)
        calls.add("close_range", 3, _EVERY_DESCRIPTOR, 0)
        limits = calls.store(struct.pack("=QQ", launch.open_files, launch.open_files))
        # Before the ids change: no program of the user may find a process with the agent's limit.
        calls.add("prlimit64", 0, resource.RLIMIT_NOFILE, limits, 0)
        if not launch.virtual:
            _add_ids(calls, launch)
        calls.add("chdir", calls.store(launch.cwd + b"\0"))
        calls.add("rt_sigprocmask", _SIG_SETMASK, calls.store(bytes(8)), 0, 8)
        environment = [name + b"=" + value for name, value in launch.environment.items()]
        calls.add(
            "execve",
            calls.store(program + b"\0"),
            calls.store_strings(launch.argv),
            calls.store_strings(environment),
        )


def _add_ids(calls: CallList, launch: Launch) -> None:
    user = launch.user
    groups = calls.store(struct.pack(f"={len(user.groups)}I", *user.groups))
    calls.add("setgroups", len(user.groups), groups)
    calls.add("setresgid", user.gid, user.gid, user.gid)
    calls.add("setresuid", user.uid, user.uid, user.uid)
    # A change of ids sets what the machine allows for set-uid programs, and the memory is still the
    # agent's. Linux before 5.16 would also end the agent, if a signal made the child dump it.
    calls.add("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)


def _find(launch: Launch, candidates: Sequence[bytes]) -> bytes | None:
    """The first candidate that is a file."""
    for candidate in candidates[:_MOST_CANDIDATES]:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(os.path.join(launch.cwd, candidate)).st_mode):
                return candidate
    return None
