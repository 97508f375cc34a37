"""The sandbox of a kernel: created for it or chosen by the user, kept alive while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.sandbox import AsyncSandbox
from sbx_jupyter.display.text import one_line
from sbx_jupyter.errors import NotFoundError, SbxError, UnavailableError, see
from sbx_jupyter.kernel.drawing import PageDrawing
from sbx_jupyter.kernel.endings import ENDINGS, explain
from sbx_jupyter.kernel.relay import Relay
from sbx_jupyter.kernel.zygote import LOST, KernelZygote, is_own_python

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.client.connection.config import ConnectionConfig

_LOG: Final = logging.getLogger(__name__)

LEASE: Final = 900
"""Seconds that the sandbox lives on after the process that started its kernel is gone."""
_RENEWAL: Final = LEASE / 3
_JOIN_TIMEOUT: Final = 30.0
_END_TIMEOUT: Final = 3.0
_WITHOUT_PORTS: Final = "landlock"
_SIGKILL: Final = 9
"""The number on the sandbox's Linux; where the server runs, there may be no such signal."""
_LONGEST_FOLDER: Final = 96
"""Bytes; in a longer one, sockets have no room for their names."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place where kernels run: sandboxes of a template on a deployment.

    ``modules`` are imported ahead in those that wait for a kernel; without ``memory_mb``, sandboxes
    have the memory that the template says.
    """

    config: ConnectionConfig
    template: str
    modules: tuple[str, ...] = ()
    memory_mb: int | None = None
    shown: tuple[str, ...] = ()
    """Directories of this machine that the sandboxes see read-only."""


@dataclass(frozen=True, slots=True)
class Size:
    """New limits of a sandbox; ``None`` keeps the current one. ``timeout`` is in seconds.

    Without ``keep_files`` it starts from the template.
    """

    memory_mb: int | None = None
    timeout: int | None = None
    keep_files: bool = True


@dataclass(slots=True)
class _Running:
    """A kernel that was started."""

    number: int
    relay: Relay


class KernelSandbox:
    """One sandbox and, in it, at most one kernel at a time; use it on the portal's loop."""

    def __init__(
        self,
        sandbox: AsyncSandbox,
        zygote: KernelZygote,
        template: str,
        shown: tuple[str, ...] = (),
        *,
        is_ours: bool,
    ) -> None:
        self.sandbox = sandbox
        self.zygote = zygote
        self._template = template
        self._shown = shown
        self.drawing = PageDrawing()
        self._is_ours = is_ours
        self._running: _Running | None = None
        self._exit_code: int | None = LOST
        self._dying: asyncio.Task[None] | None = None
        self._is_closed = False
        self._snapshot_id: str | None = None
        """Snapshot made for this sandbox alone; it cannot be deleted before the sandbox ends."""
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    @classmethod
    async def create(
        cls, place: Place, metadata: Mapping[str, str], modules: Sequence[str] = ()
    ) -> KernelSandbox:
        """Create a sandbox, and start to import modules in it. Raises ``SbxError``."""
        platform = Portal.current().platform(place.config)
        await check_isolation(platform)
        sandbox = await AsyncSandbox.create(
            place.template,
            timeout=LEASE,
            metadata=metadata,
            memory_mb=place.memory_mb,
            shown_directories=place.shown,
            platform=platform,
        )
        try:
            zygote = await KernelZygote.start(sandbox, modules)
        except BaseException:
            await sandbox.kill()
            raise
        return cls(sandbox, zygote, place.template, place.shown, is_ours=True)

    @classmethod
    async def connect(cls, config: ConnectionConfig, sandbox_id: str) -> KernelSandbox:
        """Use a sandbox that exists, which stays at the end. Raises ``SbxError``."""
        platform = Portal.current().platform(config)
        await check_isolation(platform)
        sandbox = await AsyncSandbox.connect(sandbox_id, platform=platform)
        zygote = await KernelZygote.start(sandbox)
        return cls(sandbox, zygote, sandbox.template_id, is_ours=False)

    @property
    def exit_code(self) -> int | None:
        """``None`` while the kernel runs."""
        if self._running is not None and self._exit_code is None:
            return self.zygote.exit_code(self._running.number)
        return self._exit_code

    async def start(
        self,
        argv: Sequence[str],
        connection: dict[str, Any],
        envs: Mapping[str, str],
        cwd: str = "",
    ) -> None:
        """Start a kernel and join its channels to the sockets of ``connection``.

        In ``argv``, ``{connection_file}`` stands for the file inside. ``cwd`` is the directory to
        start in, if it is there; default: the home. Raises ``SbxError``.
        """
        key, token, name = (secrets.token_hex(24) for _ in range(3))
        folder = f"{self.zygote.folder}/.sbx-kernel-{name[:16]}"
        inside = connection | {"ip": f"{folder}/k", "transport": "ipc", "key": key}
        if len(folder) > _LONGEST_FOLDER:
            inside |= {"ip": "127.0.0.1", "transport": "tcp"}
        program, *arguments = argv
        request = {
            "folder": folder,
            "connection": {k: v for k, v in inside.items() if not k.startswith("curve")},
            "token": token,
            "argv": ["" if is_own_python(program) else program, *arguments],
            "envs": dict(envs),
            "cwd": cwd,
        }
        number, port = await self.zygote.start_kernel(request)
        ca_file = self.sandbox.platform.config.ca_file
        relay = Relay(connection, key.encode(), self.drawing, ca_file)
        self._running, self._exit_code = _Running(number, relay), None
        relay.start(lambda: self.sandbox.port_address(port), token)
        self._dying = asyncio.get_running_loop().create_task(self._explain(number, relay))
        self.zygote.on_silence = functools.partial(_tell_silence, relay)
        await relay.joined(_JOIN_TIMEOUT)

    async def resized(self, size: Size) -> tuple[KernelSandbox, bool]:
        """Make another sandbox with a copy of the files, or give this one more time.

        Returns the sandbox for the next start, and whether it has the files. This one keeps its
        kernel, if that runs. Raises ``SbxError``.
        """
        source = self.sandbox
        try:
            # Resumes a paused one, since nothing else can be captured.
            await source.resume(timeout=size.timeout)
            info = await source.info()
        except NotFoundError:
            return await self._copy(self._template, {}, size), False
        if not size.keep_files:
            return await self._copy(self._template, info.metadata or {}, size), False
        if size.memory_mb in (None, info.memory_mb):
            return self, True
        snapshot_id = (await source.snapshot()).snapshot_id
        try:
            made = await self._copy(snapshot_id, info.metadata or {}, size)
        except BaseException:
            await _delete_snapshot(source, snapshot_id)
            raise
        made._snapshot_id = snapshot_id
        return made, True

    async def _copy(self, template: str, metadata: Mapping[str, str], size: Size) -> KernelSandbox:
        config = self.sandbox.platform.config
        place = Place(config, template, memory_mb=size.memory_mb, shown=self._shown)
        made = await KernelSandbox.create(place, metadata)
        # A sandbox that the user chose is not ended with its kernel, and neither is its copy.
        made._is_ours = self._is_ours
        made._template = self._template
        if size.timeout is not None and not self._is_ours:
            await made.sandbox.set_timeout(size.timeout)
        return made

    async def revive(self) -> bool:
        """Start again what starts kernels, after the sandbox lost it; false if it has ended.

        Raises ``SbxError``.
        """
        await self.end_kernel()
        await self.zygote.aclose()
        try:
            await self.sandbox.resume(timeout=LEASE if self._is_ours else None)
            self.zygote = await KernelZygote.start(self.sandbox)
        except NotFoundError:
            return False
        return True

    async def signal(self, number: int) -> None:
        """Send a signal to the kernel and all that it started."""
        if self._running is not None:
            await self._running.relay.signal(number)

    async def ended(self) -> int:
        """Wait for the end of the kernel and return its exit status."""
        if self._running is not None and self._exit_code is None:
            return await self.zygote.ended(self._running.number)
        return LOST if self._exit_code is None else self._exit_code

    async def end_kernel(self) -> None:
        """Kill the kernel, leave the sandbox as it is, and close the sockets."""
        running, self._running = self._running, None
        self.zygote.on_silence = None
        if running is None:
            return
        if self._dying is not None:
            self._dying.cancel()
        with contextlib.suppress(SbxError):
            await running.relay.signal(_SIGKILL)
        try:
            async with asyncio.timeout(_END_TIMEOUT):
                self._exit_code = await self.zygote.ended(running.number)
        except TimeoutError:
            self._exit_code = LOST
            with contextlib.suppress(SbxError):
                await self.zygote.kill(running.number)
        await running.relay.aclose()

    async def aclose(self) -> None:
        """End the kernel, and the sandbox if it was created for it."""
        self._is_closed = True
        self._renewing.cancel()
        # Everything in it ends at once, and nobody needs the exit status any more.
        await self._end_sandbox()
        await self.end_kernel()
        with contextlib.suppress(SbxError):
            await self.zygote.aclose()
        await self.sandbox.aclose()

    async def _explain(self, number: int, relay: Relay) -> None:
        """Say in the running cell, and to the page, why its kernel has ended."""
        status = await self.zygote.ended(number)
        ending = await explain(self.sandbox, status, is_lost=self.zygote.is_lost)
        await relay.say(f"\n[{ending.text}]\n")
        await relay.tell(ENDINGS, ending.to_json())

    async def _end_sandbox(self) -> None:
        if not self._is_ours:
            return
        with contextlib.suppress(SbxError):
            await self.sandbox.kill()
        if self._snapshot_id is not None:
            await _delete_snapshot(self.sandbox, self._snapshot_id)

    async def _renew(self) -> None:
        """Keep the sandbox alive while this process lives, and end it at the end of the process.

        Jupyter's console, for example, ends without a word to what it started.
        """
        try:
            while True:
                await asyncio.sleep(_RENEWAL)
                if self._is_ours:
                    with contextlib.suppress(SbxError):
                        await self.sandbox.set_timeout(LEASE)
        except asyncio.CancelledError:
            if not self._is_closed:
                await self._end_sandbox()
            raise


async def _delete_snapshot(sandbox: AsyncSandbox, snapshot_id: str) -> None:
    try:
        await sandbox.delete_snapshot(snapshot_id)
    except SbxError as error:
        _LOG.warning("the snapshot %s of a kernel's sandbox is left: %s", snapshot_id, error)


async def _tell_silence(relay: Relay, reason: str | None) -> None:
    """Say in the running cell that its sandbox does not answer, or does again."""
    if reason is None:
        await relay.say("[The sandbox of this kernel answers again]\n")
        return
    await relay.say(
        f"\n[The sandbox of this kernel does not answer: {one_line(reason, 600)}. If it does again "
        "within a minute, the kernel goes on with all its variables]\n"
    )


async def check_isolation(platform: PlatformClient) -> None:
    """Raise ``UnavailableError`` where kernels cannot run, before anything is created."""
    described: dict[str, Any] = await platform.engine_info() or {}
    isolation: dict[str, Any] = described.get("isolation", described)
    if isolation.get("tier") == _WITHOUT_PORTS and not isolation.get("loopback"):
        raise UnavailableError(
            "sandboxes on this machine have no ports (tier 'landlock'), which kernels need; "
            f"'jupyter sbx doctor' says what the machine lacks{see('containers')}"
        )
