"""The kernel zygote: a process with one thread and all imports done, which forks kernels.

Requests and answers are JSON datagrams:

``{"id", "kind": "python" | "bash" | "javascript" | "typescript", "connection_file", "cwd"}``
    -> ``{"id", "pid"}`` or ``{"id", "error"}``
a kernel ended
    -> ``{"exit": pid, "status": wait status}``
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbx_jupyter.interpreter import launcher

if TYPE_CHECKING:
    import socket

MAX_REQUEST: Final = 64 * 1024
_COMPLAINT: Final = 4000


_NEEDED: Final = (
    "sbx_jupyter.interpreter.display",
    "sbx_jupyter.interpreter.kernel_app",
    "sbx_jupyter.interpreter.pictures",
    "sbx_jupyter.interpreter.program_kernels",
)


PRELOAD_VARIABLE: Final = "SBX_PRELOAD"
"""The variable of a sandbox or its template that names more modules, with commas between them."""
_BACKEND: Final = "MPLBACKEND"


def preload() -> None:
    """Import what every kernel needs, before there is a second thread."""
    _leave_out_debugger()
    for name in _NEEDED:
        importlib.import_module(name)
    _import_named(os.environ.get(PRELOAD_VARIABLE, "").replace(",", " ").split())

    # What lives now lives for ever: keep its pages shared among the kernels.
    gc.collect()
    gc.freeze()


def _import_named(names: list[str]) -> None:
    """Import modules that the sandbox names; one that fails here fails in the kernel again."""
    if not names or _BACKEND in os.environ:
        backend = contextlib.nullcontext()
    else:
        # Read when matplotlib is imported. Kernels for Python set it; other programs do without.
        os.environ[_BACKEND] = "module://matplotlib_inline.backend_inline"
        backend = contextlib.ExitStack()
        backend.callback(os.environ.pop, _BACKEND)
    with backend:
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _leave_out_debugger() -> None:
    """Have ipykernel find no debugger, whose import is most of a kernel's start.

    No client can ask for it here. Programs can still import it.
    """
    modules: dict[str, Any] = sys.modules
    modules["debugpy"] = None  # which means: not to be found
    try:
        importlib.import_module("ipykernel.debugger")
    finally:
        del modules["debugpy"]


def run(channel: socket.socket) -> NoReturn:
    """Fork kernels as asked until the other side is gone; then end with all of them."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernels: set[int] = set()
    while True:
        ready, _, _ = select.select([channel, wake_read], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            _report_exits(channel, kernels)
        if channel in ready:
            raw = channel.recv(MAX_REQUEST)
            if not raw:
                _end(kernels)
            request = json.loads(raw)
            answer = _fork(request, (channel, wake_read, wake_write), kernels)
            channel.send(json.dumps({"id": request["id"], **answer}).encode())


def _fork(
    request: dict[str, Any], ours: tuple[socket.socket, int, int], kernels: set[int]
) -> dict[str, Any]:
    if not Path(request["cwd"]).is_dir():
        return {"error": f"cwd '{request['cwd']}' does not exist"}
    try:
        pid = os.fork()
    except OSError as error:
        return {"error": f"cannot start a process: {error.strerror}"}
    if pid == 0:
        channel, wake_read, wake_write = ours
        signal.set_wakeup_fd(-1)
        channel.close()
        os.close(wake_read)
        os.close(wake_write)
        _become_kernel(request)
    kernels.add(pid)
    return {"pid": pid}


def _become_kernel(request: dict[str, Any]) -> NoReturn:
    """Turn this child into a kernel."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["cwd"])
        os.environ["PWD"] = request["cwd"]
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        _run_kernel(request["kind"], request["connection_file"])
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        # The output of this process is not read, but the launcher reads this file.
        with contextlib.suppress(OSError):
            path = launcher.start_error_path(request["connection_file"])
            path.write_text(traceback.format_exc()[-_COMPLAINT:])
    finally:
        os._exit(status)


def _run_kernel(kind: str, connection_file: str) -> None:
    from traitlets.config import Config

    from sbx_jupyter.interpreter import display, kernel_app, pictures, program_kernels

    # The archive that we came in is no place for the user's imports to look.
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".pyz")]
    options: dict[str, Any] = {"connection_file": connection_file, "parent_handle": 0}
    options["config"] = Config(kernel_app.SETTINGS)
    if kind != "python":
        options["kernel_class"] = program_kernels.KERNELS[kind]
    app = kernel_app.KernelApp.instance(**options)
    app.initialize([])
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # the same in each fork otherwise
    if kind == "python":
        shell: Any = app.shell
        display.install(shell.display_formatter)
        pictures.install(_show)
    app.start()


def _show(picture: Any) -> None:
    # IPython does not annotate it.
    from IPython.display import display as show  # pyright: ignore[reportUnknownVariableType]

    show(picture)


def _report_exits(channel: socket.socket, kernels: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        kernels.discard(pid)
        # What the kernel started in its own group goes with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        channel.send(json.dumps({"exit": pid, "status": status}).encode())


def _end(kernels: set[int]) -> NoReturn:
    for pid in kernels:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    os._exit(0)
