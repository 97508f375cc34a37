"""The guest inside one sandbox, as this side knows it: it starts the kernels there."""

from __future__ import annotations

import asyncio
import json
import logging
import posixpath
import secrets
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.kernel.guest_program import guest_program

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from sbx_jupyter.client.processes.commands import CommandHandle
    from sbx_jupyter.client.sandbox import AsyncSandbox

_LOG: Final = logging.getLogger(__name__)
LOST: Final = 1
"""The exit status of a kernel whose end nobody saw."""

_TAG: Final = "_kernel"
"""Tag of its process; the prefix shows that no person started it as a command."""

_START_TIMEOUT: Final = 120.0
_PATIENCE: Final = 60.0
"""Seconds that the sandbox may not answer until its kernels count as lost."""
_SILENCE: Final = 3.0
"""Seconds after which that is said."""
_PAUSE: Final = 1.0
_TAIL: Final = 2000
_LONGEST_LINE: Final = 64 * 1024


class _Said(msgspec.Struct):
    """A line of the guest, which may be forged: whatever it says is about its own sandbox."""

    id: int = 0
    ready: bool = False
    port: int | None = None
    exit: int | None = None
    error: str = ""


class KernelZygote:
    """A process in a sandbox that forks kernels; use it on one event loop."""

    def __init__(self, sandbox: AsyncSandbox, handle: CommandHandle, folder: str) -> None:
        """``folder`` is where its program is kept inside, as programs name it."""
        self.folder = folder
        self.is_lost = False
        """Whether the process or its sandbox has ended."""
        self.on_silence: Callable[[str | None], Awaitable[None]] | None = None
        """Called with the reason when the sandbox has not answered for some seconds, and with
        ``None`` when it does again."""
        self._sandbox = sandbox
        self._handle = handle
        self._line = ""
        self._count = 0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ports: dict[int, asyncio.Future[int]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._following = asyncio.get_running_loop().create_task(self._follow())

    @classmethod
    async def start(cls, sandbox: AsyncSandbox, modules: Iterable[str] = ()) -> KernelZygote:
        """Start it with modules to import; does not wait for that. Raises ``SbxError``."""
        path = f"/tmp/.sbx-guest-{secrets.token_hex(8)}.pyz"
        written = await sandbox.files.write(path, guest_program())
        command = _command(written.path, modules)
        handle = await sandbox.commands.start(command, stdin=True, timeout=0, tag=_TAG)
        return cls(sandbox, handle, posixpath.dirname(written.path))

    async def ready(self) -> None:
        """Wait until the imports are done. Raises ``UnavailableError``."""
        await asyncio.wait_for(asyncio.shield(self._ready), _START_TIMEOUT)

    async def start_kernel(self, request: dict[str, Any]) -> tuple[int, int]:
        """Start a kernel; return its number and the port of its channels.

        Raises ``UnavailableError`` with the reason when it cannot start.
        """
        self._count += 1
        number = self._count
        loop = asyncio.get_running_loop()
        self._ports[number] = loop.create_future()
        self._exits[number] = loop.create_future()
        try:
            if self.is_lost:
                raise UnavailableError("the sandbox of the kernel has ended")
            await self._send(request | {"id": number})
            async with asyncio.timeout(_START_TIMEOUT):
                return number, await self._ports[number]
        except TimeoutError:
            await self.kill(number)
            raise UnavailableError("the kernel does not start in its sandbox") from None
        finally:
            self._ports.pop(number, None)

    def exit_code(self, number: int) -> int | None:
        """``None`` while a kernel runs."""
        ended = self._exits[number]
        return ended.result() if ended.done() else None

    async def ended(self, number: int) -> int:
        """Wait for the end of a kernel and return its exit status."""
        return await asyncio.shield(self._exits[number])

    async def kill(self, number: int) -> None:
        """Kill a kernel and all that it started."""
        if not self.is_lost:
            await self._send({"id": number, "kill": True})

    def said(self) -> str:
        """The end of what the guest and its kernels wrote to their error output."""
        return self._handle.stderr[-_TAIL:].strip()

    async def aclose(self) -> None:
        """End it with all its kernels."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        if not self.is_lost:
            await self._handle.kill()
        self._lose()
        await self._handle.disconnect()

    async def _send(self, request: dict[str, Any]) -> None:
        await self._handle.send_stdin(json.dumps(request) + "\n")

    async def _follow(self) -> None:
        """Read on until it ends; attach again when the connection is lost."""
        while True:
            try:
                while (output := await self._handle.receive()) is not None:
                    if output.kind == "stdout":
                        self._read(output.text)
                break
            except SbxError as error:
                _LOG.debug("the output of a sandboxed kernel broke off: %s", error)
            if not await self._attach_again():
                break
        self._lose()

    async def _attach_again(self) -> bool:
        """Attach until that works; false when it has ended or nobody answers for too long."""
        began = time.monotonic()
        is_told = False
        while time.monotonic() < began + _PATIENCE:
            await asyncio.sleep(_PAUSE)
            reason = await self._attach()
            if reason is None and is_told:
                await self._tell(None)
            if reason is None or not await self._is_alive():
                return reason is None
            if not is_told and time.monotonic() > began + _SILENCE:
                is_told = True
                await self._tell(reason)
        return False

    async def _attach(self) -> str | None:
        """Read from it again; why that is not possible, or ``None``."""
        try:
            self._handle = await self._sandbox.commands.connect(self._handle.pid)
            for number, ended in self._exits.items():
                if not ended.done():
                    await self._send({"id": number, "ask": True})
        except SbxError as error:
            _LOG.debug("a sandboxed kernel cannot be attached to: %s", error)
            return error.message
        return None

    async def _tell(self, reason: str | None) -> None:
        if self.on_silence is not None:
            await self.on_silence(reason)

    async def _is_alive(self) -> bool:
        try:
            return await self._sandbox.is_running()
        except SbxError:
            return True  # nobody answers; that says nothing about the sandbox

    def _read(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        self._line = self._line[-_LONGEST_LINE:]
        for line in lines:
            try:
                self._take(msgspec.json.decode(line, type=_Said))
            except (msgspec.DecodeError, RecursionError):
                _LOG.debug("a sandboxed kernel wrote something else than was expected")

    def _take(self, said: _Said) -> None:
        if (said.ready or said.error) and not self._ready.done():
            self._ready.set_result(None)
        if said.exit is not None and (ended := self._exits.get(said.id)) and not ended.done():
            ended.set_result(said.exit)
        asked = [self._ports.get(said.id)] if said.id else list(self._ports.values())
        for port in asked:
            if port is None or port.done():
                continue
            if said.port is not None:
                port.set_result(said.port)
            elif said.error or said.exit is not None:
                reason = said.error[:_TAIL] or f"it ended at once: {self.said()}"
                port.set_exception(
                    UnavailableError(f"the kernel cannot run in its sandbox: {reason}")
                )

    def _lose(self) -> None:
        self.is_lost = True
        for ended in self._exits.values():
            if not ended.done():
                ended.set_result(LOST)
        failure = UnavailableError(f"the kernel ended at once: {self.said()}")
        for waiting in (self._ready, *self._ports.values()):
            if not waiting.done():
                waiting.set_exception(failure)
                waiting.exception()  # nobody may wait any more


def is_own_python(program: str) -> bool:
    """Whether a kernel's program is the Python that its specification happens to name."""
    return program in ("python", "python3", sys.executable)


def _command(path: str, modules: Iterable[str]) -> str:
    """A shell command that runs the guest with the first Python that is there."""
    rest = shlex.join([path, *modules])
    tries = [
        f"command -v {shlex.quote(program)} >/dev/null && cd && exec {shlex.quote(program)} {rest}"
        for program in (sys.executable, "python3")
    ]
    missing = shlex.quote(json.dumps({"error": "there is no python3 in the sandbox"}))
    return "; ".join([*tries, f"echo {missing}; exit 127"])
