"""How often work on trees begins again when the zygote or its helper is killed over it."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from sbx_jupyter.errors import AbortedError, SbxError, UnavailableError
from sbx_jupyter.isolation import tree_operations
from sbx_jupyter.isolation.channel import Reply
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.stored.comparison import Comparison
from sbx_jupyter.isolation.stored.merged_tree import Layer
from sbx_jupyter.isolation.tree_operations import TreeOperations
from sbx_jupyter.isolation.zygote.client import ZygoteProcess
from tests.waiting import async_until


class Killed:
    """A zygote that fails each request."""

    def __init__(self, error: SbxError, *, alive: bool) -> None:
        self.alive = alive
        self.requests = 0
        self._error = error

    async def call(self, op: str, **fields: Any) -> Reply:
        self.requests += 1
        raise self._error


@pytest.mark.parametrize(("op", "requests"), [("measure", 2), ("remove", 8)])
@pytest.mark.parametrize(
    ("error", "alive"),
    [
        (UnavailableError("the sandbox is gone"), False),
        (AbortedError("the helper of the engine was killed"), True),
    ],
    ids=["zygote", "helper"],
)
async def test_work_is_given_up_when_it_is_killed_each_time(
    tmp_path: Path, op: str, requests: int, error: SbxError, alive: bool
) -> None:
    zygote = Killed(error, alive=alive)

    async def live() -> ZygoteProcess:
        return cast("ZygoteProcess", zygote)

    with pytest.raises(type(error), match=error.message):
        await getattr(TreeOperations(tmp_path, live), op)(tmp_path / "tree")
    assert zygote.requests == requests


@pytest.mark.long
async def test_a_copy_is_whole_although_its_helper_was_killed(fence: Fence, data_dir: Path) -> None:
    source, target = data_dir / "layers" / "source", data_dir / "layers" / "target"
    for number in range(200):
        folder = source / "upper" / str(number)
        folder.mkdir(parents=True)
        for name in "abcdefghij":
            (folder / name).write_text(name)
    await fence.tree_operations.measure(source)  # the zygote has been started
    before = children_of(fence.zygote_pid)

    copying = asyncio.create_task(fence.tree_operations.copy(source, target))
    helpers = await async_until(lambda: children_of(fence.zygote_pid) - before, step=0)
    for helper in helpers:
        os.kill(helper, signal.SIGKILL)
    await copying

    assert tree(target) == tree(source)


async def test_threads_that_wait_for_the_zygote_do_not_keep_it_from_starting(
    fence: Fence, data_dir: Path
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    pid = fence.zygote_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def measure() -> list[tuple[int, int] | None]:
        asked = fence.tree_operations.measure_all([data_dir / "missing"])
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    async with asyncio.timeout(60):
        assert await asyncio.to_thread(measure) == [None]


@pytest.mark.long
async def test_a_helper_ends_when_its_caller_has_given_up(
    fence: Fence, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_operations, "_COPY_TIMEOUT", 0.5)
    (data_dir / "changed").mkdir()
    (data_dir / "changed" / "big").write_bytes(bytes(1 << 20))
    await fence.tree_operations.measure_all([data_dir])  # the zygote has been started
    before = children_of(fence.zygote_pid)
    reader, writer = os.pipe()
    compared = Comparison((Layer(data_dir / "changed"),), (), ())

    with pytest.raises(UnavailableError, match="no answer"):  # since nobody reads
        await fence.tree_operations.archive(compared, writer)

    assert children_of(fence.zygote_pid) - before
    await async_until(lambda: not children_of(fence.zygote_pid) - before)
    os.close(reader)
    os.close(writer)


def children_of(pid: int | None) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def tree(directory: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(directory)): path.read_text() if path.is_file() else None
        for path in directory.rglob("*")
    }
