"""No process is left of a start that was cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import threading

import pytest

from sbx_jupyter.isolation.launching import launch
from tests.waiting import async_until


async def test_a_process_whose_start_was_cancelled_is_ended_and_waited_for() -> None:
    may_start, started = threading.Event(), list[subprocess.Popen[bytes]]()

    def start() -> subprocess.Popen[bytes]:
        may_start.wait(30)
        started.append(subprocess.Popen(["sleep", "1000"]))
        return started[0]

    launching = asyncio.create_task(launch(start))
    await asyncio.sleep(0)
    launching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launching
    may_start.set()

    await async_until(lambda: started and started[0].returncode is not None)


async def test_a_start_that_fails_tells_its_error() -> None:
    with pytest.raises(FileNotFoundError):
        await launch(lambda: subprocess.Popen(["/no/such/program"]))
