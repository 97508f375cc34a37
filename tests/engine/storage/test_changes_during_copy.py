"""A snapshot is exact although programs change files in ways that leave no later change time."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.storage.layers import Layers
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, run, start

Between = Callable[[Callable[[], Awaitable[Any]]], None]

VERSIONS = """
set -e
cd ~
for name in cur new; do
  mkdir -p $name/sub/empty
  for file in f sub/g sub/only-$name; do
    echo $name > $name/$file
    touch -d 2020-01-01 $name/$file
  done
done
sleep 0.1
"""

MAPPED = """
import mmap, os, time
with open("mapped", "wb") as file:
    file.truncate(4096)
with open("mapped", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
mapped[:3] = b"one"
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
mapped[:3] = b"two"
open("done", "w").close()
time.sleep(1000)
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """On a disk: files in memory have no change times of what is written through a mapping."""
    path = Path(tempfile.mkdtemp(prefix="plat-", dir="/var/tmp"))
    kind = subprocess.run(["stat", "-fc", "%T", path], capture_output=True, text=True, check=True)
    if kind.stdout.strip() == "tmpfs":
        pytest.skip("/var/tmp is in memory")
    yield path / "data"
    shutil.rmtree(path)


@pytest.fixture
def between_copies(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Let a function run after the first pass of each copy of a layer, before the freeze."""

    def set_up(act: Callable[[], Awaitable[Any]]) -> None:
        original = Layers.copy

        async def copy(self: Layers, *args: Any, **options: Any) -> None:
            await original(self, *args, **options)
            if options.get("still") is False:
                await act()

        monkeypatch.setattr(Layers, "copy", copy)

    return set_up


async def test_a_directory_may_replace_another_during_the_copy(
    engine: Engine, between_copies: Between
):
    source = (await create(engine)).sandbox_id
    assert await run(engine, source, VERSIONS) == ""
    between_copies(lambda: run(engine, source, "cd ~; mv cur old; mv new cur"))

    snapshot = await engine.snapshots.create(source)

    copy = await create(engine, templateID=snapshot.snapshot_id)
    look = "cd ~; find old cur | sort | xargs stat -c '%n %a %U %Y'; grep -r . old cur | sort"
    looked = await run(engine, copy.sandbox_id, look)
    assert looked == await run(engine, source, look)
    assert "cur/sub/only-new:new" in looked


async def test_a_file_may_be_changed_through_a_mapping_during_the_copy(
    make_engine: MakeEngine, between_copies: Between
):
    engine = await make_engine()
    source = (await create(engine)).sandbox_id
    await start(engine, source, f"cd ~ && exec python3 -c '{MAPPED}'")
    await run(engine, source, "cd ~; until [ -e ready ]; do sleep 0.01; done; sleep 0.1")
    between_copies(
        lambda: run(engine, source, "cd ~; touch go; until [ -e done ]; do sleep 0.01; done")
    )

    snapshot = await engine.snapshots.create(source)

    copy = await create(engine, templateID=snapshot.snapshot_id)
    assert await run(engine, copy.sandbox_id, "head -c 3 ~/mapped; ls ~/done") == (
        "two/home/user/done"
    )
