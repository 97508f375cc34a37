"""Finds the user's shared engine by its connection file, and starts it when none is running."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from sbx_jupyter.errors import UnavailableError, see
from sbx_jupyter.protocol.locations import (
    ConnectionFile,
    connection_file_of,
    default_data_dir,
    log_file_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator

START_TIMEOUT: Final = 60.0
_POLL_INTERVAL: Final = 0.02
_LOST_RACE_PATIENCE: Final = 3.0
_LOG_TAIL: Final = 2000

_NEEDED: Final = frozenset(
    {
        # the user, the locale and temporary directories
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
        # Python and its libraries
        "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONUTF8",
        "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH",
        # certificate authorities and addresses of registries
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_ECR",
    }
)  # fmt: skip
_NEEDED_PREFIXES: Final = ("LC_", "SBX_", "XDG_")
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})

_ENGINE_IMPORTS: Final = ("tornado", "traitlets", "jupyter_client", "cryptography", "h11", "oras")
"""Modules that the engine imports and the client does not, without the standard library."""

_NEEDS_LINUX: Final = (
    "a local engine needs Linux: use WSL2, a container, or a deployment elsewhere, which"
    f" c.SbxExtension.connections or E2B_API_URL names{see('connections')}"
)

_children: set[int] = set()
"""Engines that this process started and that have not ended."""


def check_platform() -> None:
    """Raise ``UnavailableError`` on systems other than Linux, where no engine can run."""
    if sys.platform != "linux":
        raise UnavailableError(_NEEDS_LINUX)


def find_engine(data_dir: Path | None = None) -> ConnectionFile | None:
    """Return the running engine of ``data_dir`` (default: the user's), or ``None``.

    Ignores the connection file of an engine that does not answer.
    """
    if sys.platform != "linux":
        return None
    found = read_connection_file(connection_file_of(data_dir or default_data_dir()))
    return found if found is not None and _answers(found) else None


def ensure_engine(data_dir: Path | None = None, timeout: float = START_TIMEOUT) -> ConnectionFile:
    """Return the running engine of ``data_dir`` (default: the user's); start one if none runs.

    Blocks until it is ready. Raises ``UnavailableError`` with the end of its log when it ends
    before that or is not ready after ``timeout`` seconds, and on systems other than Linux.
    """
    check_platform()
    data_dir = data_dir or default_data_dir()
    if (found := find_engine(data_dir)) is not None:
        return found
    deadline = time.monotonic() + timeout
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _starting(data_dir, deadline):
        if (found := find_engine(data_dir)) is not None:
            return found
        pid = _spawn(data_dir)
        return _wait_ready(data_dir, pid, deadline)


def read_connection_file(path: Path) -> ConnectionFile | None:
    """Read the record in ``path``; ``None`` when the file is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ConnectionFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _starting(data_dir: Path, deadline: float) -> Generator[None]:
    """Let one client at a time start the engine of ``data_dir``; the others wait, then find it."""
    import fcntl  # not on Windows, where clients of other deployments run

    # An engine of root may serve as a user who can make entries beside these: follow no link.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(data_dir / "start.lock", flags, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"another process has been starting the engine of {data_dir} for too long"
                    ) from None
                time.sleep(_POLL_INTERVAL)
        yield
    finally:
        os.close(descriptor)


def _spawn(data_dir: Path) -> int:
    """Start the engine in a new session, so that it keeps running when this process ends."""
    program = engine_command()
    command = [*program, "engine", "--port", "0", "--data-dir", str(data_dir)]
    command += ["--connection-file", str(connection_file_of(data_dir))]
    command += ["--SbxEngine.on_demand=True"]
    log = str(log_file_of(data_dir))
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    pid = os.posix_spawn(
        command[0],
        command,
        _environment(own=program[0] == sys.executable),
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    _children.add(pid)
    threading.Thread(target=_reap, args=(pid,), name="sbx-engine-end", daemon=True).start()
    return pid


def engine_command() -> list[str]:
    """Return the command that the engine's arguments follow.

    It runs in this environment if that has what the engine imports, else by ``jupyter-sbx``, whose
    environment may be another one. Raises ``UnavailableError`` where there is neither.
    """
    missing = [name for name in _ENGINE_IMPORTS if find_spec(name) is None]
    if not missing:
        return [sys.executable, "-P", "-m", "sbx_jupyter.cli.main"]
    if (command := shutil.which("jupyter-sbx")) is None:
        raise UnavailableError(
            f"the engine cannot run here ({missing[0]} is not installed), and there is no command"
            " jupyter-sbx; install sbx-jupyter in an environment whose commands are on the PATH"
            f"{see('tutorial')}"
        )
    return [command]


def _environment(*, own: bool) -> dict[str, str]:
    """The variables that the engine needs, with the directory of this package on ``PYTHONPATH``.

    Others are left out: they may hold secrets, such as the tokens of Jupyter and JupyterHub.
    Without ``own`` the engine has an environment of its own, and gets no ``PYTHONPATH``.
    """
    environment = {name: value for name, value in os.environ.items() if _is_needed(name)}
    if not own:
        environment.pop("PYTHONPATH", None)
        return environment
    home = str(Path(__file__).resolve().parents[3])
    known = environment.get("PYTHONPATH", "").split(os.pathsep)
    if "site-packages" not in home and home not in known:
        environment["PYTHONPATH"] = os.pathsep.join([home, *filter(None, known)])
    return environment


def _is_needed(name: str) -> bool:
    return name in _NEEDED or name.lower() in _PROXIES or name.startswith(_NEEDED_PREFIXES)


def _wait_ready(data_dir: Path, pid: int, deadline: float) -> ConnectionFile:
    """Wait for an engine to be ready: the one with ``pid``, or one that another process started."""
    ended = False
    while time.monotonic() < deadline:
        if (found := find_engine(data_dir)) is not None:
            return found
        if not ended and pid not in _children:
            # Our engine ended. If another one has locked the directory, that will be ready soon.
            ended = True
            deadline = min(deadline, time.monotonic() + _LOST_RACE_PATIENCE)
        time.sleep(_POLL_INTERVAL)
    log = log_file_of(data_dir)
    raise UnavailableError(f"the engine did not start; its log is {log}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL))
            return file.read().decode("utf-8", "replace").strip()
    except OSError as error:
        return f"(cannot be read: {error})"


def _answers(connection: ConnectionFile) -> bool:
    """Whether the engine that wrote the connection file is alive and answers."""
    try:
        os.kill(connection.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    parts = urlsplit(connection.url)
    probe = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2)
    try:
        probe.request("GET", "/health")
        return probe.getresponse().status < 300
    except (OSError, http.client.HTTPException):
        return False
    finally:
        probe.close()


def _reap(pid: int) -> None:
    """Wait for the end of an engine, of which a defunct process would stay otherwise."""
    with contextlib.suppress(ChildProcessError):  # something else in this process has waited
        os.waitpid(pid, 0)
    _children.discard(pid)
