"""Starting processes, remembering them and what became of them (interface 3.3 and 3.5)."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.processes import stdio
from sbx_jupyter.agent.processes.launch import Launcher
from sbx_jupyter.agent.processes.program import DEFAULT_PATH, Launch
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from sbx_jupyter.protocol.agent import OWN_PROGRAMS

if TYPE_CHECKING:
    from sbx_jupyter.agent.files.files import Files
    from sbx_jupyter.agent.operation import Answer, Body
    from sbx_jupyter.agent.processes.supervision import Supervision
    from sbx_jupyter.agent.users import User, Users

_SHORTAGE: Final = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
_MAX_TEXT: Final = 32 * resource.getpagesize()
"""Bytes of one argument or variable with its end (``MAX_ARG_STRLEN``)."""
_MAX_TEXTS: Final = 6 << 20
"""Bytes of all of them, where the stack has no limit; otherwise a quarter of the stack."""
_POINTER: Final = 8


@dataclass(slots=True)
class Process:
    """A process that the engine asked for, until it is released."""

    pid: int
    request: Body
    outputs: list[int]
    stdin: int | None
    status: int | None = None
    fds: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.fds = [*self.outputs, *([] if self.stdin is None else [self.stdin])]

    def close(self) -> None:
        self.stdin = None
        while self.fds:
            os.close(self.fds.pop())

    def to_json(self) -> Body:
        """The description of this process that a new engine needs (``HELLO``)."""
        asked = self.request
        return {
            "pid": self.pid,
            "tag": asked.get("tag"),
            "cmd": asked["cmd"],
            "args": asked.get("args") or [],
            "envs": asked.get("envs") or {},
            "cwd": asked.get("cwd"),
            "stdin": self.stdin is not None,
            "pty": asked.get("pty") or None,
            "deadline": asked.get("deadline"),
            "status": self.status,
        }


class Spawner:
    """Starts processes as users of the sandbox, with an environment of their own."""

    def __init__(
        self,
        users: Users,
        files: Files,
        root: str = "",
        terminals: list[list[int]] | None = None,
        supervision: Supervision | None = None,
        open_files: int = 0,
    ) -> None:
        """``terminals`` are pairs that were opened beforehand, where ``/dev/pts`` is out of reach;
        ``root`` is the directory that stands for ``/`` there, and ``supervision`` what holds every
        program beside the filter of the agent; ``open_files`` is the limit of each program, 0 the
        agent's own."""
        self._supervision = supervision
        self._users = users
        self._files = files
        self._root = root
        self._terminals = terminals
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._open_files = open_files or hard
        self._launcher = Launcher()
        self.envs: dict[str, str] = {}
        self.processes: dict[int, Process] = {}
        # Each started process costs the agent up to three descriptors.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def start(self, body: Body) -> Answer:
        """Start a process; the answer has the engine's ends of its pipes or its pty.

        Raises ``InvalidArgumentError`` for a bad working directory, argument or variable,
        ``UnauthenticatedError`` for an unknown user, ``ResourceExhaustedError``.
        """
        user = self._users.find(body.get("user"))
        argv = encode_arguments([body["cmd"], *(body.get("args") or [])])
        environment = self._environment(user, body.get("envs") or {})
        check_size(argv, environment)
        program = Launch(
            argv=argv,
            environment=environment,
            cwd=self._working_directory(user, body.get("cwd") or ""),
            user=user,
            virtual=self._users.virtual,
            open_files=self._open_files,
            supervision=self._supervision,
        )
        try:
            if body.get("pty"):
                process = _start_on_pty(self._launcher, program, body, *self._open_terminal())
            else:
                process = _start(self._launcher, program, body)
        except OSError as error:
            if error.errno in _SHORTAGE:
                raise ResourceExhaustedError(f"cannot start: {error.strerror}") from error
            raise InvalidArgumentError(f"cannot start: {error.strerror}") from error
        if (forgotten := self.processes.pop(process.pid, None)) is not None:
            forgotten.close()  # it ended long ago, and the kernel gave its number away again
        self.processes[process.pid] = process
        return {"pid": process.pid}, process.fds

    def adopt(self, body: Body) -> Answer:
        return {}, self.find(body["pid"]).fds

    def close_stdin(self, body: Body) -> Answer:
        process = self.find(body["pid"])
        if process.stdin is not None:
            os.close(process.stdin)
            process.fds.remove(process.stdin)
            process.stdin = None
        return {}, ()

    def release(self, body: Body) -> Answer:
        process = self.find(body["pid"])
        process.close()
        if process.status is not None:
            del self.processes[process.pid]
        return {}, ()

    def discard(self, pid: int) -> None:
        """End a process that the engine never hears of."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.processes.pop(pid).close()

    def signal(self, body: Body) -> Answer:
        """Signal a process or its group. Raises ``NotFoundError`` when it is gone."""
        process = self.find(body["pid"])
        number = body["signal"]
        if not isinstance(number, int) or not 0 < number < signal.NSIG:
            raise InvalidArgumentError(f"no such signal: {number}")
        try:
            if body.get("group"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                    return {}, ()
                # No group: the process is gone, or so young that it has none of its own yet.
            if process.status is None:
                os.kill(process.pid, number)
                return {}, ()
        except ProcessLookupError:
            pass
        raise NotFoundError(f"process with pid {process.pid} not found")

    def find(self, pid: int) -> Process:
        """The process with that pid. Raises ``NotFoundError``."""
        try:
            return self.processes[pid]
        except (KeyError, TypeError):
            raise NotFoundError(f"process with pid {pid} not found") from None

    def reap(self) -> list[Process]:
        """Collect every child that ended, orphans too; those that were started here."""
        ended: list[Process] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            code = exit_code(status)
            process = self.processes.get(pid)
            if process is not None and process.status is None and code is not None:
                process.status = code
                ended.append(process)

    def _open_terminal(self) -> tuple[int, int]:
        """Both ends of a new pseudo-terminal. Raises ``OSError``."""
        if self._terminals is None:
            return stdio.open_terminal()
        if not self._terminals:
            raise OSError(errno.ENOSPC, "this sandbox has used up its terminals")
        master, terminal = self._terminals.pop()
        os.set_blocking(master, False)
        return master, terminal

    def _environment(self, user: User, requested: dict[str, str]) -> dict[bytes, bytes]:
        own = {"PATH": DEFAULT_PATH, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        if self._root:
            own["PATH"] = f"{self._root}/usr/local/bin:{DEFAULT_PATH}"
            own["TMPDIR"] = f"{self._root}/tmp"
            own["GIT_CONFIG_NOSYSTEM"] = "1"  # the host's is out of reach, and git insists
            own["PIP_BREAK_SYSTEM_PACKAGES"] = "1"  # it can only write below HOME
            own["SBX_ROOT"] = self._root
        found = {**own, **self.envs, **requested}
        if self._root:
            found["PATH"] = self._find_here(found["PATH"])
        return encode_environment(found)

    def _find_here(self, search_path: str) -> str:
        """A search path in which the sandbox's own directories come before the machine's."""
        found: list[str] = []
        for folder in search_path.split(":"):
            if folder.startswith(OWN_PROGRAMS) and not folder.startswith(f"{self._root}/"):
                found.append(self._root + folder)
            if not folder.startswith("/home/"):
                found.append(folder)
        return ":".join(dict.fromkeys(found))

    def _working_directory(self, user: User, wanted: str) -> bytes:
        path = self._files.locate(wanted, user)
        with self._users.acting_as(user):
            try:
                is_directory = stat.S_ISDIR(os.stat(path).st_mode)
            except PermissionError as error:
                raise InvalidArgumentError(f"cwd '{path}': {error.strerror}") from error
            except OSError as error:
                raise InvalidArgumentError(f"cwd '{path}' does not exist") from error
            if not is_directory:
                raise InvalidArgumentError(f"cwd '{path}' is not a directory")
            if not os.access(path, os.X_OK, effective_ids=True):
                raise InvalidArgumentError(f"cwd '{path}': Permission denied")
        return os.fsencode(path)


def encode_arguments(arguments: list[str]) -> list[bytes]:
    """Arguments as bytes. Raises ``InvalidArgumentError`` for a NUL byte or a non-text."""
    try:
        encoded = [os.fsencode(argument) for argument in arguments]
    except (TypeError, UnicodeEncodeError):
        raise InvalidArgumentError("an argument is not valid text") from None
    if any(b"\0" in argument for argument in encoded):
        raise InvalidArgumentError("an argument must not contain a NUL byte")
    return encoded


def encode_environment(envs: dict[str, str]) -> dict[bytes, bytes]:
    """Variables as bytes. Raises ``InvalidArgumentError`` for an invalid name or value."""
    names, values = encode_arguments(list(envs)), encode_arguments(list(envs.values()))
    for name in names:
        if not name or b"=" in name:
            raise InvalidArgumentError(f"not a name of a variable: '{os.fsdecode(name)}'")
    return dict(zip(names, values, strict=True))


def check_size(argv: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Raise ``InvalidArgumentError`` for more than the kernel gives a program at its start."""
    texts = [*argv, *(name + b"=" + value for name, value in environment.items())]
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    room = _MAX_TEXTS if stack == resource.RLIM_INFINITY else min(stack // 4, _MAX_TEXTS)
    total = sum(len(text) + 1 + _POINTER for text in texts)
    if total > max(room, _MAX_TEXT) or any(len(text) >= _MAX_TEXT for text in texts):
        raise InvalidArgumentError("cannot start: argument list too long")


def _start(launcher: Launcher, program: Launch, body: Body) -> Process:
    opened: list[int] = []
    try:
        out, out_end = stdio.open_pipe(opened)
        err, err_end = stdio.open_pipe(opened)
        own_stdin: int | None = None
        if body.get("stdin", True):
            in_end, own_stdin = stdio.open_pipe(opened)
            os.set_blocking(own_stdin, False)
        else:
            in_end = stdio.open_null(opened)
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        pid = launcher.launch(program, (in_end, out_end, err_end))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    for fd in (in_end, out_end, err_end):
        os.close(fd)
    return Process(pid, body, [out, err], own_stdin)


def _start_on_pty(
    launcher: Launcher, program: Launch, body: Body, master: int, terminal: int
) -> Process:
    try:
        stdio.resize(master, body["pty"])
        if not program.virtual:
            os.fchown(terminal, program.user.uid, -1)
        pid = launcher.launch_on_terminal(program, terminal)
    except OSError:
        os.close(master)
        raise
    finally:
        os.close(terminal)
    return Process(pid, body, [master], None)


def exit_code(status: int) -> int | None:
    """The exit code of a wait status, negative for a signal; None for a child that goes on.

    A child that asked to be traced is reported whenever it stops.
    """
    if os.WIFEXITED(status) or os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    return None
