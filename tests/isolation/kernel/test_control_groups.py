"""Control groups: shares of processor time and the memory of TCP."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.kernel.cgroups import ControlGroups, GroupLimits, SandboxGroup
from sbx_jupyter.isolation.kernel.hierarchies import V2
from sbx_jupyter.isolation.kernel.hierarchies import Hierarchies as Found
from tests.isolation.inside import LIMITS, sandbox
from tests.security import holding
from tests.waiting import async_until

if TYPE_CHECKING:
    from sbx_jupyter.isolation.tiers import IsolationReport
    from tests.isolation.inside import Inside

MIB = 1 << 20


def group_of(box: Inside, controller: str) -> Path:
    return Path(box.cage.to_state()["group"][controller])


async def test_processor_time_is_shared_by_the_number_of_processors(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    if not report.limits["cpu_shares"].startswith("cgroup") or os.cpu_count() == 1:
        pytest.skip("needs a cpu control group and two processors")
    # A program that starts quickly: until it is on the one processor, it shares with nobody.
    spin = "taskset -c 0 /bin/sh -c 'while :; do :; done'"
    async with (
        sandbox(fence, data_dir, "one", limits=replace(LIMITS, cpu_count=1)) as one,
        sandbox(fence, data_dir, "two", limits=replace(LIMITS, cpu_count=2)) as two,
    ):
        for box in (one, two):
            await box.start(f"exec {spin}")

        def used() -> tuple[int, int]:
            found = [box.cage.work_ns() for box in (one, two)]
            assert found[0] is not None
            assert found[1] is not None
            return found[0], found[1]

        # Others may use the processor too: enough time for these, however long that takes.
        before = used()
        await async_until(lambda: sum(used()) - sum(before) >= 2_000_000_000, 150, step=0.05)
        after = used()
    share = (after[1] - before[1]) / (after[0] - before[0])
    assert 1.5 < share < 2.7


async def test_all_sandboxes_together_have_the_weight_of_the_setting(
    data_dir: Path, report: IsolationReport
) -> None:
    if report.limits["cpu_shares"] not in ("cgroup v1", "cgroup v2"):
        pytest.skip("needs a cpu control group")
    light = Fence(data_dir, report, report.tier, cpu_weight=50)
    await light.start()
    try:
        async with sandbox(light, data_dir, "light") as box:
            if report.limits["cpu_shares"] == "cgroup v1":
                assert (group_of(box, "cpu").parent / "cpu.shares").read_text() == "512\n"
            else:
                assert (group_of(box, V2).parent / "cpu.weight").read_text() == "50\n"
    finally:
        await light.stop()


async def test_the_memory_of_tcp_is_braked_and_told_where_it_is_counted_apart(
    box: Inside, report: IsolationReport
) -> None:
    if report.limits["tcp_memory"] != "cgroup v1":
        pytest.skip("needs a memory control group of version 1")
    group = group_of(box, "memory")
    assert (group / "memory.kmem.tcp.limit_in_bytes").read_text() == f"{64 * MIB}\n"
    code = holding.program(holding.MEMORY["buffers of TCP"], 60)

    await box.start("exec python3 -c '" + code.replace("'", "'\\''") + "'")

    await async_until(lambda: (box.cage.tcp_bytes() or 0) > 16 * MIB)
    most = int((group / "memory.kmem.tcp.max_usage_in_bytes").read_text())
    assert most < 128 * MIB  # 200 connections; without a limit they hold over 400 MiB


def test_version_2_gets_weights_and_limits(tmp_path: Path) -> None:
    """On files that stand for those of the kernel."""
    for name in ("cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "pids.max"):
        (tmp_path / name).touch()

    SandboxGroup({V2: tmp_path}).make(GroupLimits(memory_mb=1, cpu_count=3, processes=9))

    written = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert written == {
        "cpu.weight": "300",
        "cpu.max": "300000 100000",
        "memory.max": str(MIB),
        "memory.swap.max": "0",
        "pids.max": "9",
    }


def test_version_2_weighs_all_sandboxes_together(tmp_path: Path) -> None:
    """On files that stand for those of the kernel."""
    groups = ControlGroups(Found({}, tmp_path, frozenset()), "test", cpu_weight=70)
    (tmp_path / "sbx-test").mkdir()
    (tmp_path / "sbx-test" / "cpu.weight").touch()
    groups.prepare()
    assert (tmp_path / "sbx-test" / "cpu.weight").read_text() == "70"
