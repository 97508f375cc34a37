"""Volumes as rows, directories and tokens (interface 1.6.1, 1.6.3)."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import jwt
import pytest

from sbx_jupyter.engine import unfinished_removals
from sbx_jupyter.engine.state.store import Store
from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
from sbx_jupyter.engine.volumes.volumes import Volumes
from sbx_jupyter.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from sbx_jupyter.isolation.stored.trees import StoredTrees
from sbx_jupyter.isolation.stored.volume_content import Ownership
from sbx_jupyter.protocol.platform import VolumeMount
from tests.waiting import PATIENCE, async_until

PLAIN = Ownership()


@pytest.fixture
async def volumes(store: Store, tmp_path: Path) -> AsyncIterator[Volumes]:
    opened = Volumes(store, tmp_path, StoredTrees(tmp_path), real_ids=os.geteuid() == 0)
    await opened.recover()
    yield opened
    await opened.aclose()


async def test_a_volume_is_made_listed_opened_and_removed(volumes: Volumes) -> None:
    made = await volumes.create("data_1")
    assert [volume.name for volume in volumes.list()] == ["data_1"]

    content = volumes.open(made.volume_id, volumes.get(made.volume_id).token)
    assert content.list_dir("/") == []

    await volumes.remove(made.volume_id)
    assert volumes.list() == []
    with pytest.raises(NotFoundError):
        volumes.open(made.volume_id, made.token)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a\n"])
async def test_bad_names_are_refused(volumes: Volumes, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Volume name"):
        await volumes.create(name)


async def test_a_name_is_given_once(volumes: Volumes) -> None:
    await volumes.create("data")

    with pytest.raises(InvalidArgumentError, match="Volume with name 'data' already exists"):
        await volumes.create("data")


async def test_ids_are_uuids(volumes: Volumes) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid volume ID"):
        volumes.get("data")
    with pytest.raises(NotFoundError):
        volumes.get(str(uuid.uuid4()))


async def test_a_volume_opens_by_its_own_token_alone(volumes: Volumes) -> None:
    mine, other = await volumes.create("mine"), await volumes.create("other")
    forged = jwt.encode(
        {"volid": mine.volume_id, "aud": "volume-content", "iss": "sbx-jupyter"}, "k" * 32
    )
    unsigned = jwt.encode({"volid": mine.volume_id}, "", algorithm="none")

    for token in (other.token, forged, unsigned, "", "e2b_00"):
        with pytest.raises(UnauthenticatedError):
            volumes.open(mine.volume_id, token)


async def test_tokens_and_data_survive_a_restart(
    volumes: Volumes, store: Store, tmp_path: Path
) -> None:
    made = await volumes.create("data")
    content = volumes.open(made.volume_id, made.token)
    draft = content.open_write("f", PLAIN, force=False)
    os.close(draft.descriptor)
    content.finish_write("f", draft.name, force=False)

    again = Volumes(store, tmp_path, StoredTrees(tmp_path), real_ids=False)
    await again.recover()

    assert [entry.name for entry in again.open(made.volume_id, made.token).list_dir("/")] == ["f"]
    await again.aclose()


async def test_a_directory_without_a_row_is_collected_at_start(
    store: Store, tmp_path: Path
) -> None:
    orphan = tmp_path / "volumes" / str(uuid.uuid4())
    (orphan / "inner").mkdir(parents=True)

    volumes = Volumes(store, tmp_path, StoredTrees(tmp_path), real_ids=False)
    await volumes.recover()
    await volumes.aclose()

    assert list((tmp_path / "volumes").iterdir()) == []
    assert list((tmp_path / "volumes-removed").iterdir()) == []


async def test_closing_does_not_wait_for_a_removal_without_end(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = threading.Event()

    def remove_forever(path: str, step: Callable[[], None], *, opens_closed: bool) -> None:
        try:
            while True:
                step()
        finally:
            stopped.set()

    monkeypatch.setattr("sbx_jupyter.isolation.stored.trees.remove", remove_forever)
    (tmp_path / "volumes-removed" / str(uuid.uuid4())).mkdir(parents=True)
    volumes = Volumes(store, tmp_path, StoredTrees(tmp_path), real_ids=False)
    await volumes.recover()

    async with asyncio.timeout(PATIENCE):
        await volumes.aclose()

    assert await asyncio.to_thread(stopped.wait, PATIENCE)


class StubbornTrees(StoredTrees):
    """Trees of which one is neither retired nor removed for the time being."""

    stubborn = ""

    def retire_volume(self, volume_id: str) -> None:
        self._check(volume_id)
        super().retire_volume(volume_id)

    def remove_retired(self, volume_id: str, step: Callable[[], None]) -> None:
        self._check(volume_id)
        super().remove_retired(volume_id, step)

    def _check(self, volume_id: str) -> None:
        if volume_id == self.stubborn:
            raise InternalError("Directory not empty")


async def test_a_volume_that_cannot_be_removed_keeps_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_removals, "_FIRST_DELAY", 0.01)
    ids = [f"{number}{str(uuid.uuid4())[1:]}" for number in range(3)]
    for volume_id in ids:
        (tmp_path / "volumes-removed" / volume_id / "inner").mkdir(parents=True)
    removed = tmp_path / "volumes-removed"
    trees, left = StubbornTrees(tmp_path), UnfinishedRemovals()
    trees.stubborn = ids[0]
    volumes = Volumes(store, tmp_path, trees, real_ids=False, removals=left)

    await volumes.recover()

    await async_until(lambda: os.listdir(removed) == [ids[0]])
    trees.stubborn = ""
    await async_until(lambda: os.listdir(removed) == [])
    await left.aclose()
    await volumes.aclose()


async def test_an_engine_starts_although_a_volume_cannot_be_moved(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_removals, "_FIRST_DELAY", 0.01)
    trees, left = StubbornTrees(tmp_path), UnfinishedRemovals()
    trees.stubborn = str(uuid.uuid4())
    (tmp_path / "volumes" / trees.stubborn).mkdir(parents=True)
    volumes = Volumes(store, tmp_path, trees, real_ids=False, removals=left)

    await volumes.recover()

    assert os.listdir(tmp_path / "volumes") == [trees.stubborn]
    trees.stubborn = ""
    folders = (tmp_path / "volumes", tmp_path / "volumes-removed")
    await async_until(lambda: not any(map(os.listdir, folders)))
    await left.aclose()
    await volumes.aclose()


async def test_every_bad_mount_is_named(volumes: Volumes) -> None:
    await volumes.create("data")
    mounts = [
        VolumeMount(name="data", path="/mnt"),
        VolumeMount(name="none", path="/x"),
        VolumeMount(name="data", path="relative"),
        VolumeMount(name="data", path="/a/../b"),
        VolumeMount(name="data", path="/a/"),
        VolumeMount(name="data", path="/mnt"),
        VolumeMount(name="data", path="/proc"),
        VolumeMount(name="data", path="/dev/shm"),
    ]

    with pytest.raises(InvalidArgumentError) as caught:
        volumes.mounts(mounts)

    assert caught.value.message.split("\n") == [
        "invalid mounts:",
        "- volume mount #1: volume 'none' not found",
        "- volume mount #2: path 'relative' is not absolute",
        "- volume mount #3: path '/a/../b' is not clean",
        "- volume mount #4: path '/a/' is not clean",
        "- volume mount #5: path '/mnt' is used twice",
        "- volume mount #6: path '/proc' is in /proc, which shows the kernel",
        "- volume mount #7: path '/dev/shm' is in /dev, which shows the kernel",
    ]


async def test_a_good_mount_gives_its_directory(volumes: Volumes, tmp_path: Path) -> None:
    made = await volumes.create("data")

    assert volumes.mounts([VolumeMount(name="data", path="/mnt/x")]) == (
        (tmp_path / "volumes" / made.volume_id, "/mnt/x"),
    )


class KilledTrees(StoredTrees):
    """Trees of a helper that is killed right before or after one step."""

    step = ""
    is_done_before = False

    def _do(self, step: str, work: Callable[[], None]) -> None:
        if step != self.step:
            return work()
        self.step = ""
        if self.is_done_before:
            work()
        raise UnavailableError("the helper was killed")

    def make_volume(self, volume_id: str, limit: int = 0) -> None:
        self._do("make", lambda: super(KilledTrees, self).make_volume(volume_id, limit))

    def retire_volume(self, volume_id: str) -> None:
        self._do("retire", lambda: super(KilledTrees, self).retire_volume(volume_id))

    def remove_retired(self, volume_id: str, step: Callable[[], None]) -> None:
        self._do("remove", lambda: super(KilledTrees, self).remove_retired(volume_id, step))


@pytest.mark.parametrize("is_done_before", [False, True])
@pytest.mark.parametrize("step", ["make", "retire", "remove"])
async def test_no_directory_stays_when_the_helper_is_killed(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    is_done_before: bool,
) -> None:
    monkeypatch.setattr(unfinished_removals, "_FIRST_DELAY", 0.01)
    trees, left = KilledTrees(tmp_path), UnfinishedRemovals()
    volumes = Volumes(store, tmp_path, trees, real_ids=False, removals=left)
    await volumes.recover()
    trees.is_done_before = is_done_before
    if step == "make":
        trees.step = step
        with pytest.raises(UnavailableError):
            await volumes.create("data")
    else:
        made = await volumes.create("data")
        trees.step = step
        await volumes.remove(made.volume_id)

    assert volumes.list() == []
    folders = (tmp_path / "volumes", tmp_path / "volumes-removed")
    await async_until(lambda: not trees.step and not any(map(os.listdir, folders)))
    await left.aclose()
    await volumes.aclose()


async def test_a_caller_that_leaves_leaves_no_directory_behind(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = StoredTrees(tmp_path)
    volumes = Volumes(store, tmp_path, trees, real_ids=False)
    await volumes.recover()
    made = await volumes.create("data")
    may_retire = threading.Event()
    retire = trees.retire_volume

    def wait_and_retire(volume_id: str) -> None:
        may_retire.wait(PATIENCE)
        retire(volume_id)

    monkeypatch.setattr(trees, "retire_volume", wait_and_retire)
    leaving = asyncio.create_task(volumes.remove(made.volume_id))
    await async_until(lambda: volumes.list() == [])
    leaving.cancel()
    may_retire.set()

    await async_until(lambda: not os.listdir(tmp_path / "volumes"))
    await volumes.aclose()
