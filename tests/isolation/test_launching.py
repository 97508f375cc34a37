"""No process is left of a start that was cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import threading

import pytest

from sbx_jupyter.isolation.launching import launch
from tests.waiting import async_until, until


async def test_a_process_whose_start_was_cancelled_is_ended_and_waited_for() -> None:
    is_called, may_start = threading.Event(), threading.Event()
    started = list[subprocess.Popen[bytes]]()

    def start() -> subprocess.Popen[bytes]:
        is_called.set()
        may_start.wait(30)
        started.append(subprocess.Popen(["sleep", "1000"]))
        return started[0]

    launching = asyncio.create_task(launch(start))
    await async_until(is_called.is_set)
    launching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launching
    may_start.set()

    await async_until(lambda: started and started[0].returncode is not None)


def test_none_is_left_when_the_event_loop_is_closed_meanwhile() -> None:
    is_called, may_start = threading.Event(), threading.Event()
    started = list[subprocess.Popen[bytes]]()

    def start() -> subprocess.Popen[bytes]:
        is_called.set()
        may_start.wait(30)
        started.append(subprocess.Popen(["sleep", "1000"]))
        return started[0]

    async def begin() -> None:
        asyncio.create_task(launch(start))  # noqa: RUF006 (it is cancelled with the loop)
        await async_until(is_called.is_set)

    asyncio.run(begin())
    may_start.set()

    until(lambda: started and started[0].returncode is not None)


async def test_a_start_that_fails_tells_its_error() -> None:
    with pytest.raises(FileNotFoundError):
        await launch(lambda: subprocess.Popen(["/no/such/program"]))
