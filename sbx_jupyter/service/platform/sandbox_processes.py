"""Routes that list processes and open ports of a sandbox: an addition to the platform API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.engine.live import process_listing
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.protocol.processes import ListeningPort, SandboxProcess
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox


class ProcessesHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/processes``."""

    @operation(
        "List all processes of a running sandbox",
        answers={200: list[SandboxProcess]},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def get(self, sandbox_id: str) -> None:
        self.answer(await process_listing.list_processes(_live(self, sandbox_id)))


class PortsHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/ports``."""

    @operation(
        "List the TCP ports on which programs of a running sandbox listen",
        answers={200: list[ListeningPort]},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def get(self, sandbox_id: str) -> None:
        self.answer(await process_listing.list_ports(_live(self, sandbox_id)))


def _live(handler: PlatformHandler, sandbox_id: str) -> Sandbox:
    """The sandbox if it runs; raises ``NotFoundError``, else ``FailedPreconditionError``."""
    sandbox_id = handler.sandbox_id(sandbox_id)
    sandboxes = handler.service.engine.sandboxes
    sandboxes.get(sandbox_id)
    found = sandboxes.find_live(sandbox_id)
    if found is None:
        raise FailedPreconditionError(f"sandbox {sandbox_id} is not running")
    return found
