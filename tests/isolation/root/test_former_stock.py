"""Stock layers are removed when neither the engine nor a sandbox needs them any more."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import cast

import pytest

from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.root.former_stock import remove_former
from sbx_jupyter.isolation.tree_operations import TreeOperations
from sbx_jupyter.isolation.zygote.cage_records import CageRecords

CURRENT, FORMER, OLDEST = "c" * 16, "f" * 16, "0" * 16
STATE = {"pid": 1, "start_time": 1, "boot_id": "", "writable": "", "group": {}, "kept": False}


class Trees:
    """Removes trees, or is killed over it."""

    is_killed = False

    async def remove(self, directory: Path) -> None:
        if self.is_killed:
            raise UnavailableError("the sandbox is gone")
        shutil.rmtree(directory)


class Stock:
    """A folder of stock layers, and the records of the sandboxes that may stand on them."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "stock"
        self.records = CageRecords(data / "cages")
        self.trees = Trees()
        self.building = asyncio.Lock()

    def add(self, *names: str) -> None:
        for name in names:
            (self.folder / name / "etc").mkdir(parents=True)

    async def remove_former(self) -> set[str]:
        """What is left."""
        await remove_former(
            self.folder,
            lambda: self.folder / CURRENT,
            self.records,
            self.building,
            cast("TreeOperations", self.trees),
        )
        return set(os.listdir(self.folder))


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    made = Stock(tmp_path)
    made.add(CURRENT, f"{CURRENT}.masks", FORMER, f"{FORMER}.masks", OLDEST)
    return made


async def test_what_a_sandbox_stands_on_stays_and_all_else_goes(stock: Stock) -> None:
    stock.records.write("sandbox", {**STATE, "stock": FORMER})
    stock.add(f"{OLDEST}.4711", f"{OLDEST}.masks.4711", f"{OLDEST}.0123abcd.removed", "strange")
    needed = {CURRENT, f"{CURRENT}.masks", "strange"}

    assert await stock.remove_former() == {*needed, FORMER, f"{FORMER}.masks"}
    stock.records.remove("sandbox")
    assert await stock.remove_former() == needed


@pytest.mark.parametrize("record", [STATE, {**STATE, "pid": "none"}])
async def test_nothing_but_drafts_is_removed_when_a_record_names_no_layer(
    stock: Stock, record: dict[str, object]
) -> None:
    """It is of an earlier version, or cannot be read."""
    stock.records.write("sandbox", record)
    before = set(os.listdir(stock.folder))
    stock.add(f"{OLDEST}.4711")

    assert await stock.remove_former() == before


async def test_half_of_a_layer_never_has_the_name_of_a_layer(
    stock: Stock, caplog: pytest.LogCaptureFixture
) -> None:
    stock.trees.is_killed = True

    left = await stock.remove_former() - {CURRENT, f"{CURRENT}.masks"}
    assert len(left) == 3
    assert all(name.endswith(".removed") for name in left)
    assert "could not be removed" in caplog.text

    stock.trees.is_killed = False
    assert await stock.remove_former() == {CURRENT, f"{CURRENT}.masks"}


async def test_nothing_is_removed_while_a_layer_may_be_built(stock: Stock) -> None:
    stock.add(f"{CURRENT}.4711")
    async with stock.building:
        removing = asyncio.create_task(stock.remove_former())
        for _ in range(3):
            await asyncio.sleep(0)
        assert (stock.folder / f"{CURRENT}.4711").exists()

    assert await removing == {CURRENT, f"{CURRENT}.masks"}
