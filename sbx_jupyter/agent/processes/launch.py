"""Makes a process run a program as a user.

In most cases without a copy of the agent (``quick_launch``), otherwise by a fork. ``posix_spawn``
does not do: it cannot lower the hard limits of its child, only the agent's own, for good.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import termios
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import system
from sbx_jupyter.agent.processes.program import DEFAULT_PATH
from sbx_jupyter.agent.processes.quick_launch import QuickLauncher

if TYPE_CHECKING:
    from typing import NoReturn

    from sbx_jupyter.agent.processes.program import Launch

IGNORED_SIGNALS: Final = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
"""The signals that the agent ignores; its programs get the default actions again."""

_CHANGED_SIGNALS: Final = (*IGNORED_SIGNALS, signal.SIGCHLD, signal.SIGXFSZ)

_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_SHELL: Final = b"/bin/sh"


class Launcher:
    """Starts programs, for one agent: its memory is shared with no other process."""

    def __init__(self) -> None:
        self._quick = QuickLauncher(_CHANGED_SIGNALS)

    def launch(self, program: Launch, stdio: tuple[int, int, int]) -> int:
        """Start a program on three descriptors; returns its process id. Raises ``OSError``.

        An error of the program itself, such as a missing file, is written to its standard error.
        """
        return self._launch(program, stdio, is_pty=False)

    def launch_on_terminal(self, program: Launch, terminal: int) -> int:
        """Start a program that a terminal controls; its process id. Raises ``OSError``."""
        return self._launch(program, (terminal, terminal, terminal), is_pty=True)

    def _launch(self, program: Launch, stdio: tuple[int, int, int], *, is_pty: bool) -> int:
        candidates = _candidates(program.argv[0], _search_path(program.environment))
        pid = self._quick.start(program, candidates, stdio, is_pty)
        return _fork(program, stdio, is_pty=is_pty) if pid is None else pid


def _fork(launch: Launch, stdio: tuple[int, int, int], *, is_pty: bool) -> int:
    # The child begins with the agent's ignored signals; one that is sent before it has handlers of
    # its own has to wait for that and not get lost.
    previous = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            try:
                _become(launch, stdio, is_pty=is_pty)
            finally:
                os._exit(_NOT_EXECUTABLE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    return pid


def _become(launch: Launch, stdio: tuple[int, int, int], *, is_pty: bool) -> NoReturn:
    """Run in the child between fork and exec; errors are written to its standard error."""
    for target, fd in enumerate(stdio):
        # None of them is below 3, which the agent holds open, so no dup2 hits a later source.
        os.dup2(fd, target)
    try:
        signal.set_wakeup_fd(-1)
        if is_pty or launch.supervision:  # supervision tells programs from the agent by that
            os.setsid()
        else:
            os.setpgid(0, 0)  # a group of its own, so that its time limit ends all of it
        if is_pty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in _CHANGED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if launch.supervision:
            launch.supervision.keep_only_keeper_socket()
        else:
            system.close_from(3)
        if not launch.virtual:
            os.setgroups(launch.user.groups)
            os.setresgid(launch.user.gid, launch.user.gid, launch.user.gid)
            os.setresuid(launch.user.uid, launch.user.uid, launch.user.uid)
        os.chdir(launch.cwd)
        if launch.supervision:
            launch.supervision.enter()
        # Last: what another sandbox has in flight may be more than a program may send beside.
        resource.setrlimit(resource.RLIMIT_NOFILE, (launch.open_files, launch.open_files))
    except OSError as error:
        _complain(os.fsencode(f"cannot start: {error.strerror}"), _NOT_EXECUTABLE)
    _execute(launch.argv, launch.environment)


def _execute(argv: list[bytes], environment: dict[bytes, bytes]) -> NoReturn:
    """Like ``exec`` of ``/bin/sh``: search ``PATH``; exit 127 if missing, 126 if refused."""
    command = argv[0]
    refused: OSError | None = None
    for candidate in _candidates(command, _search_path(environment)):
        try:
            if os.path.isdir(candidate):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            os.execve(candidate, argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = error
            if error.errno == errno.ENOEXEC:
                # A script without its first line: for the shell to run, as shells do.
                os.execve(_SHELL, [_SHELL, candidate, *argv[1:]], environment)
            if error.errno != errno.EACCES:
                break
    if refused is not None:
        _complain(command + b": " + (refused.strerror or "").encode(), _NOT_EXECUTABLE)
    _complain(command + b": not found", _NOT_FOUND)


def _search_path(environment: dict[bytes, bytes]) -> bytes:
    return environment.get(b"PATH", DEFAULT_PATH.encode())


def _candidates(command: bytes, search_path: bytes) -> list[bytes]:
    if not command:
        return []
    if b"/" in command:
        return [command]
    return [(folder or b".") + b"/" + command for folder in search_path.split(b":")]


def _complain(message: bytes, status: int) -> NoReturn:
    try:
        os.write(2, b"sh: exec: " + message + b"\n")
    finally:
        os._exit(status)
