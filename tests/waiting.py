"""One way to wait: until a condition holds, never for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

PATIENCE = 30.0
"""Seconds: far more than anything waited for takes, also on a machine that is busy with others."""
STEP = 0.01

T = TypeVar("T")


def until(
    condition: Callable[[], T | None],
    timeout: float = PATIENCE,
    message: str = "It did not come about",
    step: float = STEP,
) -> T:
    """Ask every ``step`` seconds until the answer is true; that answer.

    Raises ``AssertionError`` with ``message`` and the last answer after ``timeout`` seconds.
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
    """Read every ``step`` seconds until ``expected`` is read; a failure shows the last reading."""
    deadline = time.monotonic() + timeout
    while (found := read()) != expected:
        if time.monotonic() > deadline:
            raise AssertionError(_failure(message, found, timeout))
        time.sleep(step)


async def async_until(
    condition: Callable[[], T | Awaitable[T | None] | None],
    timeout: float = PATIENCE,
    message: str = "It did not come about",
    step: float = STEP,
) -> T:
    """As ``until``, on an event loop; the condition may be asynchronous itself.

    A step of 0 also sees what holds only for a moment.
    """
    deadline = time.monotonic() + timeout
    while not (found := await _answer(condition)):
        if time.monotonic() > deadline:
            raise AssertionError(_failure(message, found, timeout))
        await asyncio.sleep(step)
    return found


async def _answer(condition: Callable[[], T | Awaitable[T | None] | None]) -> T | None:
    found = condition()
    return await found if inspect.isawaitable(found) else cast("T | None", found)


def _failure(message: str, found: object, timeout: float) -> str:
    return f"{message} within {timeout:g} s; the last answer was {found!r}"
