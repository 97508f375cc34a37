"""The table of states: what each refuses, and how."""

from __future__ import annotations

import pytest

from sbx_jupyter.engine.sandboxes.lifecycle import (
    Operation,
    State,
    check_operation,
    check_transition,
)
from sbx_jupyter.errors import (
    AbortedError,
    FailedPreconditionError,
    InternalError,
    NotFoundError,
    SbxError,
)

REFUSED: dict[str, type[SbxError]] = {
    "pause": FailedPreconditionError,
    "fork": FailedPreconditionError,
    "set_timeout": NotFoundError,
    "refresh": NotFoundError,
    "set_network": NotFoundError,
    "snapshot": NotFoundError,
}


@pytest.mark.parametrize("operation", sorted(REFUSED))
def test_a_paused_sandbox_refuses_what_needs_a_running_one(operation: Operation):
    with pytest.raises(REFUSED[operation]):
        check_operation(operation, "ia", State.PAUSED)
    check_operation(operation, "ia", State.RUNNING)


def test_pausing_a_paused_sandbox_says_so():
    with pytest.raises(FailedPreconditionError, match="is already paused"):
        check_operation("pause", "ia", State.PAUSED)


def test_resuming_a_running_sandbox_says_so():
    with pytest.raises(FailedPreconditionError, match="Sandbox ia is already running"):
        check_operation("resume", "ia", State.RUNNING)
    check_operation("resume", "ia", State.PAUSED)


@pytest.mark.parametrize("operation", [*sorted(REFUSED), "resume"])
@pytest.mark.parametrize("state", [State.PAUSING, State.RESUMING, State.SNAPSHOTTING])
def test_a_transition_in_flight_aborts(operation: Operation, state: State):
    with pytest.raises(AbortedError, match=state.value):
        check_operation(operation, "ia", state)


@pytest.mark.parametrize("state", [State.KILLING, State.LOST, State.CREATING])
def test_a_sandbox_that_is_not_shown_is_not_found(state: State):
    with pytest.raises(NotFoundError, match='Sandbox "ia" doesn\'t exist'):
        check_operation("pause", "ia", state)


def test_every_state_can_be_killed_but_once():
    for state in set(State) - {State.KILLING}:
        check_transition(state, State.KILLING)
    with pytest.raises(InternalError):
        check_transition(State.KILLING, State.RUNNING)


def test_a_paused_sandbox_does_not_run_without_resuming():
    with pytest.raises(InternalError):
        check_transition(State.PAUSED, State.RUNNING)
