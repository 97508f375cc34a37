"""Kernels for languages whose interpreter is a program: driven through two pipes.

Code goes to the driver by one pipe and the outcome comes back by another, each ended by a NUL.
What the code prints comes over the driver's stdout and stderr.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
from importlib.resources import files
from typing import Any, ClassVar, Final

from ipykernel.kernelbase import Kernel

READ_SIZE: Final = 48 * 1024
_PROGRAMS: Final = {"bash": "bash", "javascript": "node", "typescript": "node"}


def missing_program(language: str) -> str | None:
    """Why a kernel of this language cannot start here, or ``None``."""
    program = _PROGRAMS.get(language)
    if program is not None and shutil.which(program) is None:
        return f"no {program} is installed in this sandbox, which code in {language} needs"
    if language == "typescript" and not _strips_types():
        return "the node of this sandbox cannot run TypeScript; version 22.13 or newer can"
    return None


@functools.cache
def _strips_types() -> bool:
    check = "process.exit(typeof require('module').stripTypeScriptTypes === 'function' ? 0 : 1)"
    return subprocess.run(["node", "-e", check], check=False, timeout=10).returncode == 0


class DriverEndedError(Exception):
    """The interpreter ended, by ``exit`` or a signal."""


class DrivenKernel(Kernel):
    """A kernel around one driver process, which is started with the kernel and after its end."""

    implementation = "sbx-jupyter"
    implementation_version = "1"
    banner = ""
    command: ClassVar[list[str]]
    driver: ClassVar[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._process: asyncio.subprocess.Process | None = None
        self._code_pipe = -1
        self._outcomes: asyncio.StreamReader | None = None
        self._interrupted = False

    async def do_execute(  # type: ignore[override]
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """Run code and send its output; the reply of the Jupyter protocol."""
        try:
            outcome = await self._run(code, silent)
        except DriverEndedError as error:
            outcome = _failure("KernelRestarted", str(error))
        if "error" in outcome:
            failure = outcome["error"]
            if not silent:
                self.send_response(self.iopub_socket, "error", failure)
            return {"status": "error", "execution_count": self.execution_count, **failure}
        if "result" in outcome and not silent:
            content = {
                "data": outcome["result"],
                "metadata": {},
                "execution_count": self.execution_count,
            }
            self.send_response(self.iopub_socket, "execute_result", content)
        return {
            "status": "ok",
            "execution_count": self.execution_count,
            "payload": [],
            "user_expressions": {},
        }

    def parse(self, raw: str) -> dict[str, Any]:
        """``{}``, ``{"result": bundle}`` or ``{"error": {"ename", "evalue", "traceback"}}``."""
        raise NotImplementedError

    async def _run(self, code: str, silent: bool) -> dict[str, Any]:
        if self._process is None or self._process.returncode is not None:
            await self._start()
        process, outcomes = self._process, self._outcomes
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert outcomes is not None
        pumps = [
            asyncio.ensure_future(self._pump(process.stdout, "stdout", silent)),
            asyncio.ensure_future(self._pump(process.stderr, "stderr", silent)),
        ]
        try:
            await asyncio.to_thread(_write_all, self._code_pipe, code.encode() + b"\0")
            raw = await outcomes.readuntil(b"\0")
        except (BrokenPipeError, asyncio.IncompleteReadError) as error:
            await process.wait()
            await asyncio.gather(*pumps)
            raise DriverEndedError(_how_it_ended(process.returncode or 0)) from error
        finally:
            await _settle(pumps)
        return self.parse(raw[:-1].decode("utf-8", "replace"))

    async def _pump(self, stream: asyncio.StreamReader, name: str, silent: bool) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        ended = False
        while not ended:
            try:
                chunk = await stream.read(READ_SIZE)
            except asyncio.CancelledError:
                chunk = b""
            ended = not chunk
            if (text := decoder.decode(chunk, final=ended)) and not silent:
                self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

    async def _start(self) -> None:
        if self._code_pipe >= 0:
            os.close(self._code_pipe)
        code_read, self._code_pipe = os.pipe()
        outcome_read, outcome_write = os.pipe()
        source = files("sbx_jupyter.interpreter").joinpath(self.driver).read_text()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                source,
                str(code_read),
                str(outcome_write),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(code_read, outcome_write),
            )
        finally:
            os.close(code_read)
            os.close(outcome_write)
        self._outcomes = asyncio.StreamReader(limit=64 * 1024 * 1024)
        await asyncio.get_running_loop().connect_read_pipe(
            functools.partial(asyncio.StreamReaderProtocol, self._outcomes),
            os.fdopen(outcome_read, "rb"),
        )

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:  # type: ignore[override]
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        return {"status": "ok", "restart": restart}

    def start(self) -> None:
        super().start()
        # An interrupt is for the driver, which is in our process group; we go on. A handler, since
        # what is ignored here the driver would have to ignore, too.
        signal.signal(signal.SIGINT, lambda *_: None)

    def pre_handler_hook(self) -> None:
        """Keep ignoring interrupts while a message is handled, other than the base class."""

    def post_handler_hook(self) -> None:
        """Nothing was changed by ``pre_handler_hook``."""


class BashKernel(DrivenKernel):
    """Bash, whose variables, functions and directory stay from one execution to the next."""

    language = "bash"
    language_info = {  # noqa: RUF012 - an instance variable of the base class
        "name": "bash",
        "mimetype": "text/x-sh",
        "file_extension": ".sh",
    }
    command: ClassVar = ["bash", "-c"]
    driver = "driver.bash"

    def parse(self, raw: str) -> dict[str, Any]:
        return {} if raw == "0" else _failure("ExitStatus", raw)


class JavaScriptKernel(DrivenKernel):
    """Node, with top-level await and the variables of its global scope kept."""

    language = "javascript"
    language_info = {  # noqa: RUF012 - an instance variable of the base class
        "name": "javascript",
        "mimetype": "text/javascript",
        "file_extension": ".js",
    }
    command: ClassVar = ["node", "--no-warnings", "-e"]
    driver = "driver.js"

    def parse(self, raw: str) -> dict[str, Any]:
        outcome = json.loads(raw)
        if "error" in outcome:
            failure = outcome["error"]
            return _failure(failure["name"], failure["value"], failure["traceback"])
        return outcome


class TypeScriptKernel(JavaScriptKernel):
    """Node after the types were taken off."""

    language = "typescript"
    driver = "driver.js"

    async def _run(self, code: str, silent: bool) -> dict[str, Any]:
        return await super()._run("\x01" + code, silent)


KERNELS: Final[dict[str, type[DrivenKernel]]] = {
    "bash": BashKernel,
    "javascript": JavaScriptKernel,
    "typescript": TypeScriptKernel,
}


async def _settle(pumps: list[asyncio.Task[None]]) -> None:
    """Let what was printed before the outcome arrive, then stop reading.

    The outcome comes after the output was written, but over another pipe: one turn of the loop
    with nothing new says that the pipes are empty.
    """
    await asyncio.sleep(0.01)
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


def _write_all(descriptor: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(descriptor, view) :]


def _failure(name: str, value: str, traceback: str = "") -> dict[str, Any]:
    lines = traceback.splitlines() if traceback else []
    return {"error": {"ename": name, "evalue": value, "traceback": lines}}


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"the interpreter was ended by signal {-status}; its state is lost"
    return f"the interpreter ended with status {status}; its state is lost"
