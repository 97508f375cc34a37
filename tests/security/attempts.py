"""Runs an attack that uses something up, and judges it: the one way for all rows of the tables."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.errors import DeadlineExceededError
from tests.security.attacks import TIERS
from tests.waiting import async_until

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox
    from tests.security.siege import Siege

_PATIENCE = 4.0
"""Seconds in which the engine and another sandbox must answer meanwhile; the machine is small.

What others than the attack want of its processors comes on top.
"""
_OUT_OF_TIME = "it ran out of its time"
"""What is said of code that went on for as long as it may run."""
_GROWTH = 150 << 20


@dataclass
class Attempt:
    """One attack under way: what can be asked of it, and what it found for the result."""

    siege: Siege
    victim: AsyncSandbox
    engine_before: int
    said: str = ""
    notes: list[str] = field(default_factory=list)


Check = Callable[[Attempt], Awaitable[None]]
Outside = Callable[[Attempt], contextlib.AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Exhaustion:
    """One row: Python that runs in a sandbox of its own, and what must hold when it has ended.

    In every row, the engine and another sandbox must go on answering within ``_PATIENCE``.
    """

    exhausts: str
    how: str
    code: str = ""
    """Python that runs inside; empty where ``outside`` makes the attack."""
    holds: tuple[Check, ...] = ()
    """What must hold besides, looked at in this order while ``outside`` is still open."""
    seconds: float = 6
    """How long the code may run."""
    outside: Outside | None = None
    """What is done from outside around the code."""
    tiers: tuple[str, ...] = TIERS
    group: str = "exhaust"

    @property
    def name(self) -> str:
        return f"{self.exhausts}: {self.how}"

    async def run(self, siege: Siege, box: AsyncSandbox) -> str:
        """Attack from a new sandbox and judge it; raises ``AssertionError`` when it works."""
        before = siege.engine_memory()
        async with _attacked(siege) as victim:
            attempt = Attempt(siege, victim, before)
            async with self.outside(attempt) if self.outside else contextlib.nullcontext():
                if self.code:
                    attempt.said = await _run_inside(victim, self.code, self.seconds)
                for check in self.holds:
                    await check(attempt)
            return "; ".join(filter(None, [*attempt.notes, attempt.said]))


@contextlib.asynccontextmanager
async def _attacked(siege: Siege) -> AsyncIterator[AsyncSandbox]:
    """A sandbox to attack from, while health is looked at; at the end it can be killed."""
    async with await siege.create() as victim:
        patience = _PATIENCE * siege.others
        began, worst = time.monotonic(), 0.0

        async def look() -> None:
            nonlocal began, worst
            while True:
                began = time.monotonic()
                worst = max(worst, await siege.check_health())
                await asyncio.sleep(0.2)

        looking = asyncio.create_task(look())
        try:
            yield victim
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        if not looking.cancelled():
            looking.result()  # raises why others were not answered
        worst = max(worst, time.monotonic() - began)  # also what is not answered yet
        assert worst < patience, f"others waited {worst:.1f} s"


def python(code: str) -> list[str]:
    return ["python3", "-c", textwrap.dedent(code)]


async def _run_inside(victim: AsyncSandbox, code: str, seconds: float) -> str:
    """Run Python for some seconds at most; what it printed or how it was ended."""
    try:
        done = await victim.commands.run(python(code), timeout=seconds)
    except DeadlineExceededError:
        return f"{_OUT_OF_TIME}, {seconds:g} s"
    except Exception as error:
        return type(error).__name__
    return (done.stdout + done.stderr)[-300:] + f" ({done.exit_code})"


def beside(work: Callable[[Attempt], Awaitable[None]]) -> Outside:
    """Run this from outside at the same time as the code inside."""

    @contextlib.asynccontextmanager
    @functools.wraps(work)
    async def outside(attempt: Attempt) -> AsyncIterator[None]:
        working = asyncio.ensure_future(work(attempt))
        try:
            yield
        except BaseException:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise
        await working

    return outside


# What must hold.


async def was_in_time(attempt: Attempt) -> None:
    """The code ended, or something ended it, before the end of its time did."""
    assert _OUT_OF_TIME not in attempt.said, attempt.said


async def stopped(attempt: Attempt) -> None:
    """Something ended the code before its last line, which prints "everything"."""
    await was_in_time(attempt)
    assert "everything" not in attempt.said, attempt.said


def printed(start: str) -> Check:
    """What the code printed begins like this."""

    async def check(attempt: Attempt) -> None:
        assert attempt.said.startswith(start), attempt.said

    return check


def logged(text: str) -> Check:
    """The log of the sandbox says this."""

    async def check(attempt: Attempt) -> None:
        async def is_there() -> bool:
            entries = await attempt.siege.logs(attempt.victim)
            return any(text in entry.message for entry in entries)

        await async_until(is_there, message=f"{text!r} was not logged", step=0.2)

    return check


def log_is_short(limit: int) -> Check:
    """The log of the sandbox has at most so many entries when no more come."""

    async def check(attempt: Attempt) -> None:
        counts: list[int] = []

        async def is_steady() -> bool:
            counts.append(len(await attempt.siege.logs(attempt.victim)))
            return len(counts) > 3 and len(set(counts[-4:])) == 1

        await async_until(is_steady, message="entries go on coming", step=0.5)
        count = counts[-1]
        attempt.notes.append(f"{count} log entries")
        assert count <= limit, count

    return check


async def engine_stays_small(attempt: Attempt) -> None:
    grown = attempt.siege.engine_memory() - attempt.engine_before
    attempt.notes.append(f"the engine grew by {grown >> 20} MiB")
    assert grown < _GROWTH, f"the engine grew by {grown >> 20} MiB"
