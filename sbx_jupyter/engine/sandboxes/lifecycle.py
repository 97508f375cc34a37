"""The states of a sandbox, the transitions between them, and the operations each state refuses."""

from __future__ import annotations

import enum
from typing import Final, Literal

from sbx_jupyter.errors import AbortedError, FailedPreconditionError, InternalError, NotFoundError


class State(enum.Enum):
    """The state of a sandbox; the values are stored."""

    CREATING = "creating"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"
    SNAPSHOTTING = "snapshotting"
    KILLING = "killing"
    LOST = "lost"

    @property
    def reported(self) -> Literal["running", "paused"]:
        """The state that clients see (interface 9.1); see ``is_shown`` for those they never see."""
        return "paused" if self in (State.PAUSING, State.PAUSED, State.RESUMING) else "running"

    @property
    def is_shown(self) -> bool:
        """Whether get and list show a sandbox in this state."""
        return self not in (State.CREATING, State.KILLING, State.LOST)

    @property
    def is_transition(self) -> bool:
        return self not in (State.RUNNING, State.PAUSED)

    @property
    def occupies(self) -> bool:
        """Whether it counts against the maximum number of concurrent sandboxes."""
        return self is not State.PAUSED


Operation = Literal[
    "pause",
    "resume",
    "set_timeout",
    "refresh",
    "set_network",
    "set_metadata",
    "snapshot",
    "fork",
]

_NEXT: Final[dict[State, frozenset[State]]] = {
    State.CREATING: frozenset({State.RUNNING, State.KILLING}),
    State.RUNNING: frozenset({State.PAUSING, State.SNAPSHOTTING, State.KILLING, State.LOST}),
    State.PAUSING: frozenset({State.PAUSED, State.RUNNING, State.KILLING, State.LOST}),
    State.PAUSED: frozenset({State.RESUMING, State.KILLING}),
    State.RESUMING: frozenset({State.RUNNING, State.PAUSED, State.KILLING, State.LOST}),
    State.SNAPSHOTTING: frozenset({State.RUNNING, State.KILLING, State.LOST}),
    State.LOST: frozenset({State.PAUSED, State.KILLING}),
    State.KILLING: frozenset(),
}

_NEEDS_RUNNING: Final = frozenset({"set_timeout", "refresh", "set_network", "snapshot"})


def unknown_sandbox_error(sandbox_id: str) -> NotFoundError:
    """The error for a sandbox that is unknown or has ended (interface 1.3, S5)."""
    return NotFoundError(f"Sandbox \"{sandbox_id}\" doesn't exist or you don't have access to it")


def check_transition(before: State, after: State) -> None:
    """Raise ``InternalError`` unless the table allows the step."""
    if after not in _NEXT[before]:
        raise InternalError(f"a sandbox cannot go from {before.value} to {after.value}")


def check_operation(operation: Operation, sandbox_id: str, state: State) -> None:
    """Raise if the state does not allow the operation (interface 9.6).

    ``NotFoundError`` for a sandbox that is not shown, or not running where it must be;
    ``FailedPreconditionError`` to pause a paused sandbox, resume a running one or fork a paused
    one; ``AbortedError`` while another change is in progress.
    """
    if not state.is_shown:
        raise unknown_sandbox_error(sandbox_id)
    if state.is_transition:
        raise AbortedError(f"Sandbox {sandbox_id} is {state.value}, try again in a moment")
    if state is State.PAUSED:
        if operation in _NEEDS_RUNNING:
            raise NotFoundError(f"Sandbox {sandbox_id} is not running, it is paused")
        if operation == "pause":
            raise FailedPreconditionError(f"Sandbox {sandbox_id} is already paused")
        if operation == "fork":
            raise FailedPreconditionError(f"Sandbox {sandbox_id} is paused, resume it to fork it")
    elif operation == "resume":
        raise FailedPreconditionError(f"Sandbox {sandbox_id} is already running")
