"""The sandbox of a kernel: created for it or chosen by the user, kept alive while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import shlex
import signal
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.client.sandbox import AsyncSandbox
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.kernel.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbx_jupyter.client.commands import CommandHandle

_LOG: Final = logging.getLogger(__name__)
LEASE: Final = 900
"""Seconds that the sandbox lives on after the process that started its kernel is gone."""
_RENEWAL: Final = LEASE / 3
_START_TIMEOUT: Final = 120.0
_JOIN_TIMEOUT: Final = 30.0
_END_TIMEOUT: Final = 3.0
_ATTEMPTS: Final = 30
_PAUSE: Final = 1.0
_TAIL: Final = 2000
_LOST: Final = 1
_WITHOUT_PORTS: Final = "landlock"


class _Said(msgspec.Struct):
    """The first line of the guest."""

    port: int | None = None
    error: str = ""


class KernelSandbox:
    """One sandbox and, in it, at most one kernel at a time; use it on one event loop."""

    def __init__(self, sandbox: AsyncSandbox, *, is_ours: bool) -> None:
        self.sandbox = sandbox
        self.exit_code: int | None = None
        """``None`` while the kernel runs."""
        self._is_ours = is_ours
        self._relay: Relay | None = None
        self._handle: CommandHandle | None = None
        self._following: asyncio.Task[None] | None = None
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    @classmethod
    async def open(
        cls,
        *,
        sandbox_id: str | None,
        template: str,
        metadata: Mapping[str, str],
    ) -> KernelSandbox:
        """Use the sandbox with this id, or create one, on the default connection.

        Raises ``SbxError``.
        """
        if sandbox_id:
            sandbox = await AsyncSandbox.connect(sandbox_id)
        else:
            sandbox = await AsyncSandbox.create(template, timeout=LEASE, metadata=metadata)
        opened = cls(sandbox, is_ours=not sandbox_id)
        if (await sandbox.isolation() or {}).get("tier") == _WITHOUT_PORTS:
            await opened.aclose()
            raise UnavailableError(
                "sandboxes on this machine have no ports (tier 'landlock'), which kernels need; "
                "'jupyter sbx doctor' says what the machine lacks"
            )
        return opened

    async def start(
        self, argv: Sequence[str], connection: dict[str, Any], envs: Mapping[str, str]
    ) -> None:
        """Start a kernel and join its channels to the sockets of ``connection``.

        In ``argv``, ``{connection_file}`` stands for the file inside. Raises ``SbxError``.
        """
        key, token, name = (secrets.token_hex(24) for _ in range(3))
        folder = f"/tmp/.sbx-kernel-{name[:16]}"
        inside = connection | {"ip": f"{folder}/k", "transport": "ipc", "key": key}
        inside = {k: v for k, v in inside.items() if not k.startswith("curve")}
        await self.sandbox.commands.run(["mkdir", "-m", "700", folder])
        await asyncio.gather(
            self.sandbox.files.write(f"{folder}/connection.json", json.dumps(inside)),
            self.sandbox.files.write(f"{folder}/token", token),
            self.sandbox.files.write(f"{folder}/guest.py", _guest_source()),
        )
        self.exit_code = None
        command = _command(
            folder,
            [part.replace("{connection_file}", f"{folder}/connection.json") for part in argv],
        )
        self._handle = await self.sandbox.commands.start(command, envs=envs, timeout=0)
        port = await self._listening(self._handle)
        ca_file = self.sandbox.platform.config.ca_file
        self._relay = Relay(connection, key.encode(), ca_file)
        self._relay.start(lambda: self.sandbox.port_address(port), token)
        self._following = asyncio.get_running_loop().create_task(self._follow(self._handle))
        await self._relay.joined(_JOIN_TIMEOUT)

    async def signal(self, number: int) -> None:
        """Send a signal to the kernel and all that it started."""
        if self._relay is not None:
            await self._relay.signal(number)

    async def ended(self) -> int:
        """Wait for the end of the kernel and return its exit status."""
        if self.exit_code is None and self._following is not None:
            await asyncio.wait([self._following])
        return _LOST if self.exit_code is None else self.exit_code

    async def end_kernel(self) -> None:
        """Kill the kernel, leave the sandbox as it is, and close the sockets."""
        await self.signal(signal.SIGKILL)
        if self._following is not None:
            # The guest ends after its kernel.
            _, running = await asyncio.wait([self._following], timeout=_END_TIMEOUT)
            if running and self._handle is not None:
                with contextlib.suppress(SbxError):
                    await self._handle.kill()
            self._following.cancel()
        if self.exit_code is None:
            self.exit_code = _LOST
        if self._relay is not None:
            await self._relay.aclose()
            self._relay = None

    async def aclose(self) -> None:
        """End the kernel, and the sandbox if it was created for it."""
        self._renewing.cancel()
        await self.end_kernel()
        if self._is_ours:
            with contextlib.suppress(SbxError):
                await self.sandbox.kill()
        await self.sandbox.aclose()

    async def _listening(self, handle: CommandHandle) -> int:
        """Wait for the guest's first line and return its port."""
        line = ""
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                while "\n" not in line:
                    if (output := await handle.receive()) is None:
                        raise UnavailableError(
                            f"the kernel ended at once: {handle.stderr[-_TAIL:]}"
                        )
                    line += output.text if output.kind == "stdout" else ""
        except TimeoutError:
            await handle.kill()
            raise UnavailableError("the kernel does not start in its sandbox") from None
        try:
            said = msgspec.json.decode(line.partition("\n")[0], type=_Said)
        except (msgspec.DecodeError, RecursionError):
            said = _Said(error=line[:200])
        if said.port is None:
            raise UnavailableError(f"the kernel cannot run in its sandbox: {said.error[:_TAIL]}")
        return said.port

    async def _follow(self, handle: CommandHandle) -> None:
        """Read on until the kernel ends; attach again when the connection is lost."""
        for _ in range(_ATTEMPTS):
            try:
                while (await handle.receive()) is not None:
                    pass
                self.exit_code = handle.exit_code
                return
            except SbxError as error:
                _LOG.debug("the output of a sandboxed kernel broke off: %s", error)
            await asyncio.sleep(_PAUSE)
            try:
                handle = await self.sandbox.commands.connect(handle.pid)
            except SbxError as error:
                _LOG.debug("a sandboxed kernel cannot be attached to: %s", error)
                if not await self._is_alive():
                    break
        self.exit_code = _LOST

    async def _is_alive(self) -> bool:
        try:
            return await self.sandbox.is_running()
        except SbxError:
            return True  # nobody answers; that says nothing about the sandbox

    async def _renew(self) -> None:
        """Keep the sandbox alive while this process lives."""
        while True:
            await asyncio.sleep(_RENEWAL)
            if self._is_ours:
                with contextlib.suppress(SbxError):
                    await self.sandbox.set_timeout(LEASE)


def _guest_source() -> str:
    return files("sbx_jupyter.kernel").joinpath("guest.py").read_text(encoding="utf-8")


def _command(folder: str, argv: Sequence[str]) -> str:
    """A shell command that runs the guest with the first Python that is there."""
    first = argv[0]
    programs = (
        [sys.executable, "python3"] if first in ("python", "python3", sys.executable) else [first]
    )
    rest = shlex.join(argv[1:])
    tries = [
        f"command -v {shlex.quote(p)} >/dev/null && cd && exec {shlex.quote(p)} "
        f"{folder}/guest.py {folder} {shlex.quote(p)} {rest}"
        for p in programs
    ]
    missing = shlex.quote(json.dumps({"error": f"there is no {programs[-1]} in the sandbox"}))
    return "; ".join([*tries, f"echo {missing}; exit 127"])
