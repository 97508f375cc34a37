"""Limits hold against code that does not want to be held."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.kernel.processors import AFFINITY
from tests.waiting import async_until

from .inside import sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.kernel.usage import Usage
    from sbx_jupyter.isolation.tiers import IsolationReport

    from .inside import Inside


async def test_a_fork_bomb_is_bounded_and_the_sandbox_survives(
    box: Inside, report: IsolationReport
) -> None:
    # Children that wait: the number counts, and the machine of the test is spared.
    code = (
        "import os, time\nmade = []\ntry:\n    while True:\n        pid = os.fork()\n"
        "        if pid == 0: time.sleep(60)\n        made.append(pid)\n"
        "except OSError as error:\n    print(len(made), error.errno)\n"
        "for pid in made: os.kill(pid, 9)"
    )
    ran = await box.run(f"python -c '{code}'")
    made, error = ran.out.split()
    assert 10 < int(made) < 96
    assert error == "11"  # EAGAIN
    assert report.limits["processes"] != "none"
    assert (await box.run("echo alive")).out == "alive\n"


async def test_open_files_are_limited(box: Inside) -> None:
    assert (await box.run("ulimit -Hn")).out == "1024\n"


async def test_no_core_dumps_are_written(box: Inside) -> None:
    assert (await box.run("ulimit -Hc")).out == "0\n"


async def test_too_much_memory_kills_the_process_and_not_the_sandbox(
    box: Inside, report: IsolationReport
) -> None:
    if not report.limits["memory"].startswith("cgroup"):
        pytest.skip("needs a memory control group")
    ran = await box.run("python -c 'x = bytearray(400 << 20); print(len(x))'")
    assert ran.out == ""
    assert ran.status == -9
    assert box.cage.oom_kills() == 1
    assert (await box.run("echo alive")).out == "alive\n"


async def test_cpu_time_is_limited_to_the_sandbox_share(
    box: Inside, report: IsolationReport
) -> None:
    if not report.limits["cpu"].startswith("cgroup"):
        pytest.skip("needs a cpu control group")
    code = (
        "import os, time\n"
        "for _ in range(2):\n    if os.fork() == 0: break\n"
        "used, end = time.process_time(), time.monotonic() + 2\n"
        "while time.monotonic() < end: pass\n"
        "print(time.process_time() - used, flush=True)\n"
        "try:\n    while True: os.wait()\n"
        "except ChildProcessError: pass"
    )
    used = [float(text) for text in (await box.run(f"python -c '{code}'")).out.split()]
    assert len(used) == 3
    assert sum(used) < 2.7  # three processes, two seconds, one processor


async def test_processors_stay_those_that_were_given_where_no_group_shares_them(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    bound = Fence(data_dir, replace(report, limits={**report.limits, "cpu": AFFINITY}), report.tier)
    await bound.start()
    code = (
        "import os, multiprocessing, threading, time\n"
        "everywhere = set(range(os.cpu_count()))\n"
        "own = os.sched_getaffinity(0)\n"
        "os.sched_setaffinity(0, everywhere)\n"
        "os.sched_setaffinity(os.getpid(), everywhere)\n"
        "os.sched_setaffinity(threading.get_native_id(), everywhere)\n"
        "assert os.sched_getaffinity(0) == own and len(own) == 1, own\n"
        "assert multiprocessing.cpu_count() >= 1 and os.nice(0) > 0\n"
        "try: os.nice(-1)\n"
        "except PermissionError: print(len(own))\n"
    )
    try:
        async with sandbox(bound, data_dir, "bound") as inside:
            ran = await inside.run(f"python -c '{code}' && taskset -c 0-63 nproc", user="root")
            assert ran.out == "1\n1\n", ran.err
            given = os.sched_getaffinity(inside.cage.pid)
            async with sandbox(bound, data_dir, "beside") as beside:
                other = os.sched_getaffinity(beside.cage.pid)
        assert len(given) == len(other) == 1
        assert given != other or len(os.sched_getaffinity(0)) == 1
    finally:
        await bound.stop()


async def test_usage_counts_time_memory_and_processes(box: Inside, report: IsolationReport) -> None:
    if not report.limits["memory"].startswith("cgroup"):
        assert box.cage.usage() is None
        return
    before = box.cage.usage()
    await box.start("exec python -c 'x = bytearray(64 << 20)\nwhile True: pass'")
    assert before is not None

    def has_worked() -> Usage | None:
        after = box.cage.usage()
        assert after is not None
        used = after.cpu_ns - before.cpu_ns > 200_000_000
        held = after.memory_bytes - before.memory_bytes > 60 << 20
        return after if used and held else None

    after = await async_until(has_worked)
    assert after.processes > before.processes


async def test_a_file_above_the_disk_size_cannot_be_written(box: Inside) -> None:
    # disk_mb is 0 in these tests: no limit; the rlimit must not be there either.
    assert (await box.run("ulimit -Hf")).out == "unlimited\n"
