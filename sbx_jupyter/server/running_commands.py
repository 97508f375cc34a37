"""Finds out whether a command runs in a sandbox, and keeps its kernel and server from being culled.

A command is what a client or a person started: a process that was started through the runtime API,
or the program in the foreground of a terminal. A shell at its prompt is none, nor is the kernel
itself, whose cells Jupyter sees, or what a cell left in the background.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from jupyter_server._tz import utcnow
from jupyter_server.utils import ensure_async

from sbx_jupyter.client.files.files import Files, read_at_most
from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.errors import NotFoundError, SbxError
from sbx_jupyter.protocol.process_stat import parse_stat
from sbx_jupyter.server.kernels.kernel_routes import sandbox_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from logging import Logger

    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.server.deployments.connections import Connections

LOOK_EVERY: Final = 60.0
"""Seconds between two looks, by which a hub learns that a server is in use."""

OWN_TAGS: Final = "_"
"""Prefix of the tags of processes that belong to the engine or to a kernel."""

MAX_SANDBOXES: Final = 64

_MAX_PROC: Final = 4 * 1024
"""Bytes of a file in /proc; a sandbox's root may mount any file there."""


async def has_command(runtime: RuntimeClient) -> bool:
    """Whether a command runs in a sandbox; raises ``SbxError``."""
    files = Files(runtime)
    for process in await Commands(runtime).list():
        if (process.tag or "").startswith(OWN_TAGS):
            continue
        # Where /proc cannot be read, it may be a command: then nothing is ended.
        if await foreground_program(files, process.pid) != "":
            return True
    return False


async def foreground_program(files: Files, shell: int) -> str | None:
    """The program in the foreground of the terminal of ``shell``; ``""`` at its prompt.

    A process without a terminal is its own. ``None`` where it cannot be read from the sandbox's
    /proc, which may be forged.
    """
    try:
        stat = parse_stat(await read_at_most(files, f"/proc/{shell}/stat", _MAX_PROC) or b"")
        if stat is None:
            return None
        if stat.foreground_group == stat.group:
            return ""
        shown = stat.foreground_group if stat.foreground_group > 0 else shell
        name = await read_at_most(files, f"/proc/{shown}/comm", _MAX_PROC)
        return None if name is None else name.decode("utf-8", "replace").strip() or "?"
    except SbxError:
        # The sandbox has no /proc, or the program ended between the two reads.
        return None


class CullingGuard:
    """Lets Jupyter's culling of kernels, and a hub's of servers, respect running commands."""

    def __init__(
        self,
        manager: Any,
        connections: Connections,
        watched: Callable[[], Iterable[str]],
        log: Logger,
    ) -> None:
        """``manager`` is Jupyter's of the kernels.

        ``watched`` names sandboxes without a kernel that end with the server.
        """
        self._manager = manager
        self._connections = connections
        self._watched = watched
        self._log = log
        self._following: asyncio.Task[None] | None = None

    def start(self, note: Callable[[], None]) -> None:
        """Look before each kernel that Jupyter would cull; other managers cull nothing.

        ``note`` is called every minute in which a command runs in what ends with the server.
        """
        self._following = asyncio.create_task(self._follow(note))
        cull = getattr(self._manager, "cull_kernel_if_idle", None)
        if cull is None:
            return

        async def cull_unless_used(kernel_id: str) -> None:
            await self._note_kernel(kernel_id)
            await ensure_async(cull(kernel_id))

        self._manager.cull_kernel_if_idle = cull_unless_used

    async def aclose(self) -> None:
        """Look no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self, note: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if await self.is_in_use():
                note()

    async def is_in_use(self) -> bool:
        """Whether a command runs in a sandbox that ends with the server."""
        places = [await sandbox_of(self._manager, each) for each in self._manager.list_kernel_ids()]
        sandboxes = dict.fromkeys([*filter(None, places), *self._watched()])
        for sandbox_id in list(sandboxes)[:MAX_SANDBOXES]:
            if await self._is_used(sandbox_id):
                return True
        return False

    async def _note_kernel(self, kernel_id: str) -> None:
        sandbox_id = await sandbox_of(self._manager, kernel_id)
        if sandbox_id is not None and await self._is_used(sandbox_id):
            # Jupyter reads this attribute, which it sets itself for each message of the kernel.
            self._manager.get_kernel(kernel_id).last_activity = utcnow()

    async def _is_used(self, sandbox_id: str) -> bool:
        connection = self._connections.of(sandbox_id)
        if not connection.is_awake():
            return False
        try:
            return await has_command(await connection.runtime(sandbox_id))
        except NotFoundError:
            connection.forget(sandbox_id)
            return False
        except SbxError as error:
            connection.note_failure(error, sandbox_id)
            self._log.debug("no look at the commands of %s: %s", sandbox_id, error.message)
            return False
