"""Waits until a condition is true, and tells how busy the machine is.

Tests wait for conditions instead of waiting for a time. Where the time itself is what is tested,
its limit grows with what the machine does besides.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

PATIENCE = 60.0
"""Seconds: much longer than any condition takes, also on a busy machine."""
STEP = 0.01

T = TypeVar("T")


def until(
    condition: Callable[[], T | None],
    timeout: float = PATIENCE,
    message: str = "It did not come about",
    step: float = STEP,
) -> T:
    """Call ``condition`` every ``step`` seconds until its result is true, and return that.

    Raises ``AssertionError`` with ``message`` and the last result after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(_failure(message, found, timeout))
        time.sleep(step)
    return found


def until_equal(
    read: Callable[[], T],
    expected: T,
    timeout: float = PATIENCE,
    message: str = "It did not come about",
    step: float = STEP,
) -> None:
    """Call ``read`` every ``step`` seconds until it returns ``expected``.

    Raises ``AssertionError`` with ``message`` and the last result after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while (found := read()) != expected:
        if time.monotonic() > deadline:
            raise AssertionError(_failure(message, found, timeout))
        time.sleep(step)


def until_steady(read: Callable[[], int], timeout: float = PATIENCE, step: float = 0.1) -> int:
    """Call ``read`` every ``step`` seconds until it returned the same, not 0, five times running.

    Raises ``AssertionError`` after ``timeout`` seconds.
    """
    seen: list[int] = []

    def is_steady() -> bool:
        seen.append(read())
        return seen[-1] != 0 and len(seen) >= 5 and len(set(seen[-5:])) == 1

    until(is_steady, timeout, "It was never steady", step)
    return seen[-1]


async def async_until(
    condition: Callable[[], T | Awaitable[T | None] | None],
    timeout: float = PATIENCE,
    message: str = "It did not come about",
    step: float = STEP,
) -> T:
    """Like ``until``, on an event loop; the condition may be asynchronous too.

    A step of 0 checks at every turn of the loop, for conditions that are true only briefly.
    """
    deadline = time.monotonic() + timeout
    while not (found := await _answer(condition)):
        if time.monotonic() > deadline:
            raise AssertionError(_failure(message, found, timeout))
        await asyncio.sleep(step)
    return found


class Busyness:
    """How many programs want each processor, from when this was made until it is asked.

    Make it before what is timed: the load average alone lags behind what began just now, and what
    ends meanwhile is gone from a look at the end.
    """

    def __init__(self) -> None:
        self._before = busyness()

    def most(self) -> float:
        """The larger of what it was before and what it is now, at least 1."""
        return max(self._before, busyness())


def busyness() -> float:
    """How many programs want each processor now or wanted it lately, at least 1."""
    return max(waiting_programs(), os.getloadavg()[0] / _processors())


def waiting_programs() -> float:
    """How many programs want each processor at this moment, at least 1.

    Unlike the load average, it knows nothing of what has ended, such as the load of a test itself.
    """
    fields = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    running = next((int(words[1]) for words in fields if words[0] == "procs_running"), 0)
    return max(1.0, running / _processors())


def _processors() -> int:
    return os.cpu_count() or 1


async def _answer(condition: Callable[[], T | Awaitable[T | None] | None]) -> T | None:
    found = condition()
    return await found if inspect.isawaitable(found) else cast("T | None", found)


def _failure(message: str, found: object, timeout: float) -> str:
    return f"{message} within {timeout:g} s; the last answer was {found!r}"
