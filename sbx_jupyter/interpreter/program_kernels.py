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
import re
import select
import shutil
import signal
import subprocess
from importlib.resources import files
from typing import Any, ClassVar, Final

from ipykernel.kernelbase import Kernel

READ_SIZE: Final = 48 * 1024
MOST_READ: Final = 4 * 1024 * 1024
"""Bytes for one message, if most of them are NUL."""
_NUL_RUN: Final = re.compile(rb"\0{256,}")
_CHECK_TIMEOUT: Final = 120.0
_PROGRAMS: Final = {"bash": "bash", "javascript": "node", "typescript": "node"}


def missing_program(language: str) -> str | None:
    """Why a kernel of this language cannot start here; ``None`` if it can."""
    program = _PROGRAMS.get(language)
    if program is not None and shutil.which(program) is None:
        return f"no {program} is installed in this sandbox, which code in {language} needs"
    if language == "typescript" and not _strips_types():
        return "the node of this sandbox cannot run TypeScript; version 22.13 or newer can"
    return None


@functools.cache
def _strips_types() -> bool:
    check = "process.exit(typeof require('module').stripTypeScriptTypes === 'function' ? 0 : 1)"
    return (
        subprocess.run(["node", "-e", check], check=False, timeout=_CHECK_TIMEOUT).returncode == 0
    )


class DriverEndedError(Exception):
    """The interpreter ended, by ``exit`` or a signal."""


class Output:
    """Our end of the driver's stdout or stderr."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> bytes | None:
        """Read what there is, with long runs of NUL bytes named.

        ``b""`` at the end, ``None`` if there is nothing now.
        """
        raw = bytearray()
        length = 0
        while length < READ_SIZE and len(raw) < MOST_READ:
            try:
                chunk = os.read(self.descriptor, READ_SIZE)
            except BlockingIOError:
                if not raw:
                    return None
                break
            if not chunk:
                break
            raw += chunk
            # What a chunk of NUL bytes leaves is short: a message for each would be a flood.
            length += len(name_nul_runs(chunk))
        return name_nul_runs(bytes(raw))


class ProgramKernel(Kernel):
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
        self._outputs: list[Output] = []

    async def do_execute(
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
                self._publish("error", failure)
            return {"status": "error", "execution_count": self.execution_count, **failure}
        if "result" in outcome and not silent:
            content: dict[str, Any] = {
                "data": outcome["result"],
                "metadata": {},
                "execution_count": self.execution_count,
            }
            self._publish("execute_result", content)
        return {
            "status": "ok",
            "execution_count": self.execution_count,
            "payload": [],
            "user_expressions": {},
        }

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        self.send_response(self.iopub_socket, kind, content)  # pyright: ignore[reportUnknownMemberType] - untyped there

    def parse(self, raw: str) -> dict[str, Any]:
        """``{}``, ``{"result": bundle}`` or ``{"error": {"ename", "evalue", "traceback"}}``."""
        raise NotImplementedError

    async def _run(self, code: str, silent: bool) -> dict[str, Any]:
        if "\0" in code:  # which ends code on its way to the driver
            return _failure("SyntaxError", "the code has a NUL character")
        if self._process is None or self._process.returncode is not None:
            await self._start()
        process, outcomes = self._process, self._outcomes
        assert process is not None
        assert outcomes is not None
        loop = asyncio.get_running_loop()
        for output in self._outputs:
            loop.add_reader(output.descriptor, self._show, output, silent)
        try:
            await self._send(code.encode() + b"\0")
            raw = await outcomes.readuntil(b"\0")
        except (BrokenPipeError, asyncio.IncompleteReadError) as error:
            await process.wait()
            raise DriverEndedError(_how_it_ended(process.returncode or 0)) from error
        finally:
            # What was printed before the outcome is in the pipes by now.
            for output in self._outputs:
                loop.remove_reader(output.descriptor)
                while self._show(output, silent):
                    pass
        return self.parse(raw[:-1].decode("utf-8", "replace"))

    async def _send(self, raw: bytes) -> None:
        if len(raw) <= select.PIPE_BUF:  # has room: the driver has read all before
            os.write(self._code_pipe, raw)
        else:
            await asyncio.to_thread(_write_all, self._code_pipe, raw)

    def _show(self, output: Output, silent: bool) -> bool:
        """Send what there is to read now; whether there was anything."""
        chunk = output.read()
        if chunk is None:
            return False
        if not chunk:
            asyncio.get_running_loop().remove_reader(output.descriptor)
        text = output.decoder.decode(chunk, final=not chunk)
        if text and not silent:
            content = {"name": output.name, "text": text}
            self._publish("stream", content)
        return bool(chunk)

    async def _start(self) -> None:
        self._close_pipes()
        code_read, self._code_pipe = os.pipe()
        outcome_read, outcome_write = os.pipe()
        writers: list[int] = []
        for name in ("stdout", "stderr"):
            reader, writer = os.pipe()
            os.set_blocking(reader, False)
            self._outputs.append(Output(reader, name))
            writers.append(writer)
        source = files("sbx_jupyter.interpreter").joinpath(self.driver).read_text()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                source,
                str(code_read),
                str(outcome_write),
                stdin=subprocess.DEVNULL,
                stdout=writers[0],
                stderr=writers[1],
                pass_fds=(code_read, outcome_write),
            )
        finally:
            for descriptor in (code_read, outcome_write, *writers):
                os.close(descriptor)
        self._outcomes = asyncio.StreamReader(limit=64 * 1024 * 1024)
        await asyncio.get_running_loop().connect_read_pipe(
            functools.partial(asyncio.StreamReaderProtocol, self._outcomes),
            os.fdopen(outcome_read, "rb"),
        )

    def _close_pipes(self) -> None:
        for descriptor in (self._code_pipe, *(output.descriptor for output in self._outputs)):
            if descriptor >= 0:
                os.close(descriptor)
        self._code_pipe = -1
        self._outputs = []

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        return {"status": "ok", "restart": restart}

    def start(self) -> None:
        super().start()
        # An interrupt goes to the whole process group but is meant for the driver only. Use a
        # handler: the driver would inherit an ignored signal.
        signal.signal(signal.SIGINT, lambda _number, _frame: None)

    def pre_handler_hook(self) -> None:
        """Keep ignoring interrupts while a message is handled, other than the base class."""

    def post_handler_hook(self) -> None:
        """Nothing was changed by ``pre_handler_hook``."""


class BashKernel(ProgramKernel):
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


class JavaScriptKernel(ProgramKernel):
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


KERNELS: Final[dict[str, type[ProgramKernel]]] = {
    "bash": BashKernel,
    "javascript": JavaScriptKernel,
    "typescript": TypeScriptKernel,
}


def name_nul_runs(chunk: bytes) -> bytes:
    """The output with its long runs of NUL bytes named instead.

    As JSON, each takes six bytes, so that their messages can fill the memory of the sandbox.
    """
    return _NUL_RUN.sub(lambda run: b"[%d NUL bytes]" % len(run[0]), chunk)


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
