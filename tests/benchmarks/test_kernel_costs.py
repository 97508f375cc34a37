"""What common requests ask of the kernel, and how many instructions they take.

The engine is a process of its own here, so that nothing of the client is counted. Its zygote and
agents are counted too, but no program that runs in a sandbox. A round is over when all of them
sleep, so that a busy machine makes it longer and changes no count.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.benchmarks import cost_table
from tests.benchmarks.common_requests import common_requests
from tests.benchmarks.cost_table import Costs, Limit
from tests.benchmarks.harness import EngineClient
from tests.benchmarks.kernel_counters import (
    CallCounter,
    Calls,
    InstructionCounter,
    NoCountersError,
    is_asleep,
)
from tests.engine.conftest import FAST_DISK
from tests.engine_process import engine_process
from tests.waiting import until

ROUNDS: Final = 25
_CHOSEN: Final = 0
"""The round that counts, from the cheapest on: other work of the engine adds to some rounds, as
does a slow machine on which a request arrives in pieces. What a request costs more is in all."""

WARM_UP: Final = 2
CALLS, BYTES = "system calls", "bytes moved"
_LEFT_OUT: Final = ("futex",)
"""How often threads wait for one another depends on how they meet."""

_OPTIONS: Final = ("pool_size=0", "metrics_interval=3600", "warm_interpreter=False")
_GROUPS: Final[tuple[str, str]] = ("engine", "zygote and agents")
LIMITS: Final = {
    **{f"{group}: {CALLS}": Limit(0.04) for group in _GROUPS},
    **{f"{group}: {BYTES}": Limit(0.1) for group in _GROUPS},
    **{group: Limit(0.1) for group in _GROUPS},
    # Output and end of a program arrive together or one after the other.
    f"exec: {_GROUPS[0]}: {CALLS}": Limit(0.12),
}
"""One more call for each request is more than the limit of the cheapest request."""


def _part() -> str:
    """What the counts depend on: a kernel and a root directory decide how a sandbox is made."""
    system: dict[str, str] = {}
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release()
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.machine()},"
        f" {system.get('ID', 'no name')} {system.get('VERSION_ID', '')}, Linux {kernel}"
    )


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or "SBX_TEST_USER_ID" in os.environ,
    reason="the table is of an engine of root without a helper",
)


@dataclass
class Measured:
    """What each request cost, and why something was not counted."""

    calls: Costs = field(default_factory=dict[str, dict[str, Any]])
    instructions: Costs = field(default_factory=dict[str, dict[str, Any]])
    missing: str = ""


class Watched:
    """The engine's processes, with a counter of what they do."""

    def __init__(self, engine: int) -> None:
        self._engine = engine
        pids = [engine], _descendants(engine)
        groups: dict[str, list[int]] = dict(zip(_GROUPS, pids, strict=True))
        self._calls = CallCounter(groups)
        self.missing = ""
        try:
            self._instructions = InstructionCounter(groups)
        except NoCountersError as error:
            self._instructions, self.missing = None, str(error)

    def close(self) -> None:
        self._calls.close()
        if self._instructions is not None:
            self._instructions.close()

    def round(self, work: Callable[[], object]) -> tuple[dict[str, Calls], Counter[str]]:
        """System calls and instructions of one time ``work``, by group."""
        self._until_asleep()
        before = self._read_instructions()
        work()
        calls = self._until_asleep()
        return calls, self._read_instructions() - before

    def _read_instructions(self) -> Counter[str]:
        return Counter() if self._instructions is None else self._instructions.read()

    def _until_asleep(self) -> dict[str, Calls]:
        """Wait until no process of the engine does anything; returns the calls until then.

        What one that sleeps was sent wakes it at once. So when all slept twice, and none has done
        anything between, none has anything left to do.
        """
        total = {group: Calls() for group in _GROUPS}
        looks = [False]

        def is_at_rest() -> bool:
            found = self._calls.take()
            for group, calls in found.items():
                total[group].by_name.update(calls.by_name)
                total[group].bytes_moved += calls.bytes_moved
            looks.append(not any(each.by_name for each in found.values()) and self._all_sleep())
            return all(looks[-2:])

        until(is_at_rest, message="The engine did not come to rest", step=0.002)
        for calls in total.values():
            for name in _LEFT_OUT:
                del calls.by_name[name]
        return total

    def _all_sleep(self) -> bool:
        return all(map(is_asleep, [self._engine, *_descendants(self._engine)]))


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found[1:]


@pytest.fixture(scope="module")
def measured() -> Measured:
    """What each common request cost."""
    options = [f"--SbxEngine.{option}" for option in _OPTIONS]
    with engine_process("costs", *options, folder=FAST_DISK) as engine:
        client = EngineClient(engine.url, engine.key, engine.pid)
        if client.platform("GET", "/engine/info")["tier"] != "namespaces":
            pytest.skip("the table is of sandboxes with namespaces")
        try:
            watched = Watched(engine.pid)
        except NoCountersError as error:
            pytest.skip(str(error))
        found = Measured(missing=watched.missing)
        with contextlib.closing(watched), contextlib.closing(client):
            for request, work in common_requests(client):
                for _ in range(WARM_UP):
                    work()
                rounds = [watched.round(work) for _ in range(ROUNDS)]
                found.calls[request], found.instructions[request] = _costs(rounds)
    return found


def _costs(
    rounds: Sequence[tuple[dict[str, Calls], Counter[str]]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls and bytes, and instructions."""
    calls: dict[str, Any] = {}
    instructions: dict[str, Any] = {}
    for group in _GROUPS:
        of_group = [each[group] for each, _ in rounds]
        chosen = sorted((each.by_name for each in of_group), key=Counter.total)[_CHOSEN]
        calls[f"{group}: {CALLS}"] = chosen.total()
        calls[f"{group}: {CALLS} by name"] = dict(sorted(chosen.items()))
        calls[f"{group}: {BYTES}"] = sorted(each.bytes_moved for each in of_group)[_CHOSEN]
        instructions[group] = sorted(each[group] for _, each in rounds)[_CHOSEN]
    return calls, instructions


def test_common_requests_ask_no_more_of_the_kernel_than_they_did(measured: Measured) -> None:
    assert all(measured.calls["create"].values())
    _check(_part(), measured.calls)


def test_common_requests_take_no_more_instructions_than_they_did(measured: Measured) -> None:
    if measured.missing:
        pytest.skip(measured.missing)
    _check(f"{_part()}, instructions", measured.instructions)


def _check(part: str, found: Costs) -> None:
    if not cost_table.known(part):
        pytest.skip(f"the table has no {part}; to record it, as root: {cost_table.RENEW}")
    cost_table.check(part, found, LIMITS)
