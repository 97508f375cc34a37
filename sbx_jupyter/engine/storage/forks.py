"""Forks: new sandboxes that start from what a running one has written (interface 9.5).

A fork has the files of its source but none of its processes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.admission import check_timeout
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage.capture import NOT_CAPTURED
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol.access import new_access_token, new_sandbox_id
from sbx_jupyter.protocol.platform import DEFAULT_TIMEOUT_V1

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.creation import Creation
    from sbx_jupyter.engine.storage.capture import Capture, CapturedLayer
    from sbx_jupyter.engine.storage.flatten import Flattener
    from sbx_jupyter.engine.storage.layer_stacks import Stack

_MAX_FORKS: Final = 100


class Forks:
    """Starts copies of running sandboxes."""

    def __init__(
        self, context: Context, flattener: Flattener, capture: Capture, creation: Creation
    ) -> None:
        self._context = context
        self._flattener = flattener
        self._layers = context.layers
        self._capture = capture
        self._creation = creation

    async def create(
        self, sandbox_id: str, timeout: int = DEFAULT_TIMEOUT_V1, count: int = 1
    ) -> list[SandboxRow | SbxError]:
        """Start ``count`` copies of a running sandbox (S11).

        ``timeout`` is in seconds. Each result is the row of a fork or the error that stopped it.
        Raises ``NotFoundError``, ``InvalidArgumentError``, ``AbortedError``, ``NoSpaceError``.
        Goes on when the caller is cancelled.
        """
        work = self._create(sandbox_id, timeout, count)
        return await self._context.tasks.complete(work, "sbx-fork")

    @metered("fork")
    async def _create(
        self, sandbox_id: str, timeout: int, count: int
    ) -> list[SandboxRow | SbxError]:
        config = self._context.config
        if not 1 <= count <= _MAX_FORKS:
            raise InvalidArgumentError(f"count must be between 1 and {_MAX_FORKS}")
        if count >= config.max_sandboxes:
            raise InvalidArgumentError(
                f"count must be less than the maximum of {config.max_sandboxes} sandboxes"
            )
        if timeout < 0:
            raise InvalidArgumentError("Timeout must be greater than or equal to 0")
        check_timeout(timeout, config.max_timeout)
        slot = self._context.slots.find(sandbox_id)
        operations = self._context.operations
        async with self._layers.reserve() as layer:
            with operations.begin(sandbox_id, "fork") as work, contextlib.ExitStack() as held:
                async with slot.operate("fork"):
                    captured = await self._capture.capture(slot, layer, work)
                    row = slot.row
                    stack = self._layers.put_on(captured.name, row.layers)
                    # The source may end from here on; the forks still need its layers.
                    held.enter_context(self._layers.hold(stack))
                reached("fork.copied")
                work.phase = "starting"
                drafts = [_draft_fork(row, stack, timeout) for _ in range(count)]
                results = list(await asyncio.gather(*map(self._launch, drafts)))
                await self._log_forks(row, captured, results)
        self._flattener.consider(stack)
        return results

    async def _log_forks(
        self, row: SandboxRow, captured: CapturedLayer, results: list[SandboxRow | SbxError]
    ) -> None:
        """Write the result to the logs of the source and of its forks."""
        made = [result.sandbox_id for result in results if isinstance(result, SandboxRow)]
        batch = Batch()
        for sandbox_id in made:
            batch.log(
                logs.entry(
                    sandbox_id,
                    "info",
                    "Forked: the files are those of the source",
                    source=row.sandbox_id,
                    not_carried=NOT_CAPTURED,
                )
            )
        level: logs.Level = "info" if len(made) == len(results) else "warn"
        fields = {"forks": ", ".join(made), "failed": str(len(results) - len(made))}
        batch.log(logs.entry(row.sandbox_id, level, "Forked", **fields, **captured.log_fields()))
        await self._context.commit(batch)

    async def _launch(self, draft: SandboxRow) -> SandboxRow | SbxError:
        try:
            row = await self._creation.launch(draft)
        except SbxError as error:
            return error
        reached("fork.launched")
        return row


def _draft_fork(row: SandboxRow, stack: Stack, timeout: int) -> SandboxRow:
    return replace(
        row,
        sandbox_id=new_sandbox_id(),
        state=State.CREATING,
        timeout=timeout,
        access_token=None if row.access_token is None else new_access_token(),
        traffic_token=None if row.traffic_token is None else new_access_token(),
        layers=stack,
        cage=None,
    )
