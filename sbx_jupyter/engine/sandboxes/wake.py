"""Resumes a paused sandbox for a request that may wake it (interface 9.4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.errors import AbortedError, NotFoundError
from sbx_jupyter.protocol.access import (
    ACCESS_TOKEN_HEADER,
    TRAFFIC_TOKEN_HEADER,
    check_header,
)
from sbx_jupyter.protocol.runtime import RUNTIME_PORT

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor

_WAIT: Final = 60.0


@dataclass(frozen=True, slots=True)
class WakeCredential:
    """The port and the tokens of an incoming request."""

    port: int
    access_token: str | None = None
    traffic_token: str | None = None


class Waker:
    """Waits until a sandbox runs, and resumes a paused one if the request may wake it."""

    def __init__(self, context: Context, supervisor: Supervisor) -> None:
        self._context = context
        self._supervisor = supervisor

    async def wake(self, sandbox_id: str, credential: WakeCredential | None) -> Sandbox:
        """Wait for a change of state in progress, resume a paused sandbox, and return the sandbox.

        Raises ``NotFoundError`` when it is unknown, has ended or may not be resumed by traffic,
        ``AbortedError`` when a change of state takes over a minute, ``PermissionDeniedError`` when
        its token is missing or wrong, ``ResourceExhaustedError`` when there are too many sandboxes.
        """
        slot = self._context.slots.get(sandbox_id)
        if slot is None or not slot.state.is_shown:
            raise _missing()
        try:
            async with asyncio.timeout(_WAIT):
                await slot.lock.acquire()
        except TimeoutError as error:
            raise AbortedError(
                "The sandbox is still transitioning. Try again in a moment."
            ) from error
        try:
            if slot.state is State.PAUSED:
                await self._resume(slot, credential)
            if slot.state is not State.RUNNING or slot.placed is None:
                raise _missing()
            if slot.placed.sandbox is None:
                raise _missing()
            return slot.placed.sandbox
        finally:
            slot.lock.release()

    async def _resume(self, slot: Slot, credential: WakeCredential | None) -> None:
        row = slot.row
        if credential is None or not row.auto_resume or row.pause_mode != "full":
            raise _missing()
        if credential.port == RUNTIME_PORT:
            check_header(ACCESS_TOKEN_HEADER, credential.access_token, row.access_token)
        else:
            check_header(TRAFFIC_TOKEN_HEADER, credential.traffic_token, row.traffic_token)
        timeout = min(row.timeout, self._context.config.max_timeout)
        await self._supervisor.resume(slot, timeout)


def _missing() -> NotFoundError:
    return NotFoundError("The sandbox was not found")
