"""Files without a name are counted, whoever holds them and however many descriptors there are."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.waiting import async_until

from .inside import LIMITS, sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.fence import Fence

    from .inside import Inside

MIB = 1 << 20

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

HOLD = (
    "import os\nos.chdir(os.path.expanduser('~'))\n"
    "f = open('gone', 'wb')\nos.unlink('gone')\nf.write(b'x' * (8 << 20))\nf.flush()\n"
)


async def until_counted(fence: Fence, box: Inside, size: int) -> tuple[int, ...]:
    """Wait for what the count gives; who has files open for writing."""

    async def counted() -> tuple[int, ...] | None:
        found = await fence.open_files(box.cage)
        return found.writers if found.unnamed_bytes >= size else None

    return await async_until(counted, timeout=240, step=0.1)


async def test_a_file_without_a_name_is_counted_once(fence: Fence, box: Inside) -> None:
    await box.start(
        f'exec python3 -c "{HOLD}os.fork(); os.dup(f.fileno())\nimport time; time.sleep(99)"'
    )
    writers = await until_counted(fence, box, 8 * MIB)
    assert set(writers) <= set(box.cage.members())
    assert 1 <= len(writers) <= 2
    assert (await fence.open_files(box.cage)).unnamed_bytes < 9 * MIB


async def test_memory_and_files_with_a_name_are_not_counted(fence: Fence, box: Inside) -> None:
    code = (
        "import os, time\nm = os.memfd_create('m')\nos.write(m, b'x' * (8 << 20))\n"
        "f = open(os.path.expanduser('~/named'), 'wb')\nf.write(b'x' * (8 << 20))\nf.flush()\n"
        "s = open('/dev/shm/s', 'wb')\nos.unlink('/dev/shm/s')\ns.write(b'x' * (8 << 20))\n"
        "s.flush()\nopen('/tmp/ready', 'w')\ntime.sleep(99)"
    )
    await box.start(f'exec python3 -c "{code}"')
    ready = await box.run("until test -e /tmp/ready; do sleep 0.05; done")
    assert ready.status == 0
    found = await fence.open_files(box.cage)
    assert found.unnamed_bytes == 0
    assert len(found.writers) == 1


async def test_nothing_is_hidden_by_very_many_descriptors_and_the_zygote_goes_on(
    fence: Fence, data_dir: Path
) -> None:
    limits = replace(LIMITS, open_files=4096, processes=200, memory_mb=0)
    async with sandbox(fence, data_dir, "many", limits=limits) as box:
        code = (
            "import os, time\nos.chdir(os.path.expanduser('~'))\nn = 0\n"
            "while n < 4000: n = os.dup(0)\n"
            "for _ in range(150):\n    if os.fork() == 0: time.sleep(99)\n"
            "for n in range(3000, 3080, 2):\n    f = os.open('gone', os.O_CREAT | os.O_WRONLY)\n"
            "    os.unlink('gone')\n    os.write(f, b'x' * (1 << 20))\n    os.dup2(f, n)\n"
            "    os.close(f)\nopen('ready', 'w')\ntime.sleep(99)"
        )
        await box.start(f'exec python3 -c "{code}"')
        await box.run("until test -e ~/ready; do sleep 0.1; done", timeout=240)

        counting = asyncio.create_task(fence.open_files(box.cage))
        asked = 0
        while not counting.done():
            await fence.tree_operations.measure_all(
                [data_dir / "nothing"]
            )  # what else the zygote is asked
            asked += 1
        await counting
        assert asked >= 2
        await until_counted(fence, box, 10 * MIB)  # of 40 MiB; a part stands for the whole


async def test_a_sandbox_that_dies_meanwhile_holds_nothing(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "dying") as box:
        await box.start("while true; do sleep 0.001 3>/tmp/f; done")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert (await fence.open_files(box.cage)).unnamed_bytes < MIB
        await box.cage.kill()
        assert (await fence.open_files(box.cage)).writers == ()
