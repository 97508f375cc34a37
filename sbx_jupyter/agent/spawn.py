"""Starting processes, remembering them and what became of them (interface 3.3 and 3.5)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import stat
import struct
import termios
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from . import system

if TYPE_CHECKING:
    from typing import NoReturn

    from .files import Files
    from .operation import Answer, Body
    from .users import User, Users


DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PIPE_SIZE: Final = 1 << 18
"""What the kernel lets one user have in all pipes is enough for 256 such; then it gives 8 KiB."""
_TIOCGPTPEER: Final = 0x5441
_TIOCSPTLCK: Final = 0x40045431
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_SHELL: Final = b"/bin/sh"
_SHORTAGE: Final = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)


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
        """What a new engine must know of it (``HELLO``)."""
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
        filter_program: bytes = b"",
    ) -> None:
        """``terminals`` are pairs that were opened beforehand, where ``/dev/pts`` is out of reach;
        ``root`` is the directory that stands for ``/`` there, and ``filter_program`` a system call
        filter for every program beside that of the agent."""
        self._filter = filter_program
        self._users = users
        self._files = files
        self._root = root
        self._terminals = terminals
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.envs: dict[str, str] = {}
        self.processes: dict[int, Process] = {}
        # Each started process costs the agent up to three descriptors.
        hard = self._open_files[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def start(self, body: Body) -> Answer:
        """Start a process; the answer has the engine's ends of its pipes or its pty.

        Raises ``InvalidArgumentError`` for a bad working directory, argument or variable,
        ``UnauthenticatedError`` for an unknown user, ``ResourceExhaustedError``.
        """
        user = self._users.find(body.get("user"))
        launch = _Launch(
            argv=encode_arguments([body["cmd"], *(body.get("args") or [])]),
            environment=self._environment(user, body.get("envs") or {}),
            cwd=self._working_directory(user, body.get("cwd") or ""),
            user=user,
            virtual=self._users.virtual,
            open_files=self._open_files,
            filter_program=self._filter,
        )
        try:
            if body.get("pty"):
                process = _start_on_pty(launch, body, *self._open_terminal())
            else:
                process = _start(launch, body)
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
            process = self.processes.get(pid)
            if process is not None and process.status is None:
                process.status = os.waitstatus_to_exitcode(status)
                ended.append(process)

    def _open_terminal(self) -> tuple[int, int]:
        """Both ends of a new pseudo-terminal. Raises ``OSError``."""
        if self._terminals is None:
            return _open_terminal()
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
        return encode_environment({**own, **self.envs, **requested})

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
    """Variables as bytes. Raises ``InvalidArgumentError`` for what cannot be a variable."""
    names, values = encode_arguments(list(envs)), encode_arguments(list(envs.values()))
    for name in names:
        if not name or b"=" in name:
            raise InvalidArgumentError(f"not a name of a variable: '{os.fsdecode(name)}'")
    return dict(zip(names, values, strict=True))


@dataclass(frozen=True, slots=True)
class _Launch:
    """All that the child needs, prepared before the fork so that nothing can fail after it."""

    argv: list[bytes]
    environment: dict[bytes, bytes]
    cwd: bytes
    user: User
    virtual: bool
    open_files: tuple[int, int]
    filter_program: bytes


def _start(launch: _Launch, body: Body) -> Process:
    opened: list[int] = []
    try:
        out, out_end = _pipe(opened)
        err, err_end = _pipe(opened)
        own_stdin: int | None = None
        if body.get("stdin", True):
            in_end, own_stdin = _pipe(opened)
            os.set_blocking(own_stdin, False)
        else:
            in_end = _open_null(opened)
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        stdio = (in_end, out_end, err_end)
        pid = _spawn(launch, stdio) or _fork(launch, stdio, is_pty=False)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    for fd in (in_end, out_end, err_end):
        os.close(fd)
    return Process(pid, body, [out, err], own_stdin)


def _open_terminal() -> tuple[int, int]:
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    master = os.open("/dev/ptmx", flags | os.O_NONBLOCK)
    try:
        # By hand, since the C library's openpty may ask its name services for the group "tty".
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        terminal = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
        os.set_inheritable(terminal, False)
    except OSError:
        os.close(master)
        raise
    return master, terminal


def _start_on_pty(launch: _Launch, body: Body, master: int, terminal: int) -> Process:
    try:
        resize(master, body["pty"])
        if not launch.virtual:
            os.fchown(terminal, launch.user.uid, -1)
        pid = _fork(launch, (terminal, terminal, terminal), is_pty=True)
    except OSError:
        os.close(master)
        raise
    finally:
        os.close(terminal)
    return Process(pid, body, [master], None)


def resize(master: int, size: list[int]) -> None:
    """Set columns and rows of a pty. Raises ``OSError``."""
    cols, rows = (min(max(int(number), 0), 0xFFFF) for number in size)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    opened.extend(ends)
    with contextlib.suppress(OSError):  # the user's share is used up: the usual 64 KiB then
        fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    return ends


def _open_null(opened: list[int]) -> int:
    """``/dev/null``, or an empty pipe where hostile code put something else there."""
    try:
        fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        fd = -1
    if fd >= 0:
        status = os.fstat(fd)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3):
            opened.append(fd)
            return fd
        os.close(fd)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.close(writer)
    opened.append(reader)
    return reader


def _spawn(launch: _Launch, stdio: tuple[int, int, int]) -> int | None:
    """Start without copying this process, in a quarter of the time that ``fork`` takes here.

    ``None`` when that is not possible; ``_fork`` then does it or tells what is wrong. The child
    borrows our memory until its ``exec``, and we wait for that. Its ids cannot be given, but it can
    drop the effective ones for the real ones, so the user's are our real ones meanwhile. That lets
    the user's other processes stop it just then, and us with it: no harm but to their own sandbox.
    """
    if launch.virtual or launch.filter_program or (program := _find_program(launch)) is None:
        return None
    user, own_groups = launch.user, os.getgroups()
    try:
        system.close_on_exec_from(3)
        os.chdir(launch.cwd)
        os.setgroups(user.groups)
        os.setresgid(user.gid, -1, -1)
        os.setresuid(user.uid, -1, -1)
        resource.setrlimit(resource.RLIMIT_NOFILE, launch.open_files)
        return os.posix_spawn(
            program,
            launch.argv,
            launch.environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(stdio)],
            resetids=True,
            setsid=True,
            setsigmask=(),
            setsigdef=_CHANGED_SIGNALS,
        )
    except OSError:
        return None
    finally:
        hard = launch.open_files[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        os.setresuid(0, -1, -1)
        os.setresgid(0, -1, -1)
        os.setgroups(own_groups)
        os.chdir("/")


def _find_program(launch: _Launch) -> bytes | None:
    """The file that ``exec`` would take, by its absolute path."""
    search_path = launch.environment.get(b"PATH", DEFAULT_PATH.encode())
    for candidate in _candidates(launch.argv[0], search_path):
        path = os.path.join(launch.cwd, candidate)
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(path).st_mode):
                return path
    return None


def _fork(launch: _Launch, stdio: tuple[int, int, int], *, is_pty: bool) -> int:
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


def _become(launch: _Launch, stdio: tuple[int, int, int], *, is_pty: bool) -> NoReturn:
    """The child between fork and exec. What goes wrong is told on its standard error."""
    for target, fd in enumerate(stdio):
        # None of them is below 3, which the agent holds open, so no dup2 hits a later source.
        os.dup2(fd, target)
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if is_pty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in _CHANGED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        resource.setrlimit(resource.RLIMIT_NOFILE, launch.open_files)
        system.close_from(3)
        if not launch.virtual:
            os.setgroups(launch.user.groups)
            os.setresgid(launch.user.gid, launch.user.gid, launch.user.gid)
            os.setresuid(launch.user.uid, launch.user.uid, launch.user.uid)
        os.chdir(launch.cwd)
        if launch.filter_program:
            system.install_filter(launch.filter_program)
    except OSError as error:
        _complain(os.fsencode(f"cannot start: {error.strerror}"), _NOT_EXECUTABLE)
    _execute(launch.argv, launch.environment)


_CHANGED_SIGNALS: Final = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGXFSZ,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def _execute(argv: list[bytes], environment: dict[bytes, bytes]) -> NoReturn:
    """What ``exec`` of ``/bin/sh`` does: search in ``PATH``, 127 when missing, 126 when refused."""
    command = argv[0]
    refused: OSError | None = None
    for candidate in _candidates(command, environment.get(b"PATH", DEFAULT_PATH.encode())):
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
