"""Starts the code interpreter inside a sandbox at its first use (interface 5).

The program is copied into the sandbox as one archive: a sandbox sees the engine's Python, but not
necessarily the directory of this package.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import marshal
import os
import re
import socket
import sys
import zipfile
from importlib.resources import files
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live.subscriptions import Ended
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import NotFoundError, UnavailableError
from sbx_jupyter.isolation.root.rootfs import packages_file
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, ProcessConfig, StartRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.live.files import Files
    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.engine.live.processes import Processes

USER: Final = "user"
TAG: Final = "_interpreter"
FOLDER: Final = "/run"
ARCHIVE_NAME: Final = "sbx-interpreter.pyz"
_ENVS_NAME: Final = "sbx-interpreter.json"
START_TIMEOUT: Final = 300.0
"""Seconds; a start takes one, but callers rather wait than fail on a machine that is busy."""
_REVIVED_AFTER: Final = 2.0
"""Seconds that an interpreter must have run to be started again when it ends: one that ends at
once would end again."""
_ERROR_TAIL: Final = 2000
_PORT: Final = re.compile(r"--port ([0-9]{1,5})\b")
_UNCHECKED: Final = 1
"""The flag of compiled modules that are not compared with their source (PEP 552)."""
_PYTHON: Final = "/usr/local/bin/python3"
_PACKAGES: Final = packages_file(os.path.realpath(sys.executable))
_MAIN: Final = "from sbx_jupyter.interpreter.program import main\nmain()\n"


class Interpreter:
    """The interpreter of one sandbox; ``start`` may be called any number of times."""

    def __init__(
        self, files: Files, processes: Processes, envs: Callable[[], dict[str, str]]
    ) -> None:
        """``envs`` returns the current environment variables of the sandbox."""
        self._files = files
        self._processes = processes
        self._envs = envs
        self.folder = FOLDER
        """Folder for its program; the sandbox must be able to write there."""
        self.python: str | None = None
        """The Python to start it with, where that is known."""
        self.shares_ports = False
        """Whether other sandboxes and the machine have the same ports."""
        self._starting = asyncio.Lock()
        self._listens_since: float | None = None
        self._tasks = BackgroundTasks()
        processes.call_at_end(TAG, self._ended)

    @property
    def _is_running(self) -> bool:
        return any(process.tag == TAG for process in self._processes.list())

    @property
    def port(self) -> int | None:
        """The port it listens on; ``None`` before a start that has yet to choose one."""
        if not self.shares_ports:
            return INTERPRETER_PORT
        for process in self._processes.list():
            if process.tag == TAG and (found := _PORT.search(" ".join(process.config.args))):
                return int(found[1])
        return None

    async def start(self) -> None:
        """Return when the interpreter listens; concurrent calls wait for the first one.

        Raises ``UnavailableError`` with its error output when it ends instead, for example in a
        template without Python or Jupyter.
        """
        async with self._starting:
            if self._is_running:
                if self._listens_since is None:  # an earlier engine started it
                    self._listens_since = asyncio.get_running_loop().time()
                return
            program, envs = f"{self.folder}/{ARCHIVE_NAME}", f"{self.folder}/{_ENVS_NAME}"
            await self._write(program, await asyncio.to_thread(archive))
            await self._write_envs()
            # Programs of the Landlock tier find files by their names outside.
            shown = [await self._files.resolve(path, "root") for path in (program, envs)]
            port = _free_port() if self.shares_ports else INTERPRETER_PORT
            arguments = [shown[0], "--port", str(port), "--envs", shown[1]]
            request = StartRequest(
                process=ProcessConfig(cmd=await self._python(), args=arguments),
                tag=TAG,
                stdin=False,
            )
            process = await self._processes.start(request, user=USER, timeout=None)
            try:
                async with asyncio.timeout(START_TIMEOUT):
                    await _wait_listening(process)
            except TimeoutError:
                with contextlib.suppress(NotFoundError):
                    await process.signal(9)
                raise UnavailableError("the code interpreter is still starting") from None
            self._listens_since = asyncio.get_running_loop().time()

    def abandon(self) -> None:
        """End the tasks that were begun here; the sandbox is gone."""
        self._tasks.cancel()

    def _ended(self) -> None:
        """Start it again, also for callers inside, whom the gateway never hears of."""
        since, self._listens_since = self._listens_since, None
        if since is not None and asyncio.get_running_loop().time() - since >= _REVIVED_AFTER:
            self._tasks.spawn(self.start(), "sbx-interpreter")

    async def update_envs(self) -> None:
        """Pass changed variables to a running interpreter; new kernels get them.

        Raises the errors of ``Files``.
        """
        if self._is_running:
            await self._write_envs()

    async def _write_envs(self) -> None:
        path = f"{self.folder}/{_ENVS_NAME}"
        part = f"{path}.part"
        await self._write(part, msgspec.json.encode(self._envs()))
        await self._files.move(part, path, "root")

    async def _write(self, path: str, content: bytes) -> None:
        async with await self._files.open_write(path, "root") as file:
            await file.write(content)

    async def _python(self) -> str:
        """The sandbox's Python where it has the engine's packages, else the engine's own.

        In the former, what ``pip install`` adds is there for the code too. A template without
        either needs a Python with these packages.
        """
        if self.python is not None:
            return self.python
        if await self._exists(_PACKAGES):
            return _PYTHON
        return sys.executable if await self._exists(Path(sys.executable)) else "python3"

    async def _exists(self, path: Path) -> bool:
        try:
            await self._files.stat(str(path), "root")
        except NotFoundError:
            return False
        return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


async def _wait_listening(process: Process) -> None:
    """Wait for the first line on stdout; raises ``UnavailableError`` with stderr if it ends."""
    error_text = b""
    async with process.subscribe() as output:
        async for event in output:
            if isinstance(event, Ended):
                break
            if event.kind == "stdout":
                return
            if event.kind == "stderr":
                error_text = (error_text + event.chunk)[-_ERROR_TAIL:]
    said = error_text.decode("utf-8", "replace").strip()
    raise UnavailableError(f"the code interpreter ended at once: {said}")


@functools.cache
def archive() -> bytes:
    """The program as a zip archive that Python runs."""
    buffer = io.BytesIO()
    package = files("sbx_jupyter")
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr("__main__.py", _MAIN)
        target.writestr("sbx_jupyter/__init__.py", "")
        for source in package.joinpath("interpreter").iterdir():
            if not source.is_file():
                continue
            name, content = f"sbx_jupyter/interpreter/{source.name}", source.read_bytes()
            target.writestr(name, content)
            if name.endswith(".py"):
                target.writestr(f"{name}c", _compiled(name, content))
    return buffer.getvalue()


def _compiled(name: str, source: bytes) -> bytes:
    """A module as this Python loads it at once; another version takes the source beside it."""
    code = compile(source, f"{FOLDER}/{ARCHIVE_NAME}/{name}", "exec", dont_inherit=True)
    header = MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source)
    return header + marshal.dumps(code)
