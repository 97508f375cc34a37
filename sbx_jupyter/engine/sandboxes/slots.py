"""The sandboxes of an engine at run time, each with its state and its lock."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.lifecycle import (
    Operation,
    State,
    check_operation,
    check_transition,
    unknown_sandbox_error,
)
from sbx_jupyter.errors import ResourceExhaustedError, see

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.state.rows import SandboxRow


class Slot:
    """One sandbox of this engine: its ``SandboxRow``, its ``Placed``, and its lock.

    The row may have a transitional state such as ``pausing`` that is not stored yet. The lock must
    be held to change the state.
    """

    def __init__(self, row: SandboxRow, placed: Placed | None = None) -> None:
        self.row = row
        self.placed = placed
        self.lock = asyncio.Lock()
        self.death_task: asyncio.Task[None] | None = None
        self.oom_kills = 0

    @property
    def sandbox_id(self) -> str:
        return self.row.sandbox_id

    @property
    def state(self) -> State:
        return self.row.state

    @property
    def occupies(self) -> bool:
        """Whether it counts against the maximum, as a sandbox paused with its memory does."""
        return self.state.occupies or self.placed is not None

    def change_state(self, state: State) -> None:
        """Change the state; raises ``InternalError`` if the table does not allow it."""
        check_transition(self.row.state, state)
        self.row = replace(self.row, state=state)

    def set_stored_row(self, row: SandboxRow) -> None:
        """Replace the row by one that was just stored; checks the transition of its state."""
        if row.state is not self.row.state:
            check_transition(self.row.state, row.state)
        self.row = row

    @contextlib.asynccontextmanager
    async def operate(self, operation: Operation) -> AsyncGenerator[None]:
        """Hold the lock for an operation (interface 9.6); raises what ``check_operation`` raises.

        Waits for a snapshot in progress, because it is short and leaves the sandbox running.
        """
        if self.state is not State.SNAPSHOTTING:
            check_operation(operation, self.sandbox_id, self.state)
        async with self.lock:
            check_operation(operation, self.sandbox_id, self.state)
            yield


class Slots:
    """All sandboxes by id, and the maximum number of concurrent ones."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._slots: dict[str, Slot] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots.values()))

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, sandbox_id: str) -> Slot | None:
        return self._slots.get(sandbox_id)

    def find(self, sandbox_id: str) -> Slot:
        """The slot of a sandbox that clients may see; raises ``NotFoundError``."""
        slot = self._slots.get(sandbox_id)
        if slot is None or not slot.state.is_shown:
            raise unknown_sandbox_error(sandbox_id)
        return slot

    def add(self, slot: Slot) -> None:
        self._slots[slot.sandbox_id] = slot

    def remove(self, slot: Slot) -> None:
        self._slots.pop(slot.sandbox_id, None)

    def occupied(self) -> int:
        """The number of sandboxes that count against the maximum."""
        return sum(slot.occupies for slot in self._slots.values())

    def check_room(self, count: int = 1) -> None:
        """Raise ``ResourceExhaustedError`` if ``count`` more would exceed the maximum."""
        if self.occupied() + count > self._maximum:
            raise ResourceExhaustedError(
                f"You have reached the maximum number of concurrent sandboxes ({self._maximum}). "
                "Kill one, pause one without its memory, or raise c.SbxEngine.max_sandboxes"
                f"{see('limits')}"
            )
