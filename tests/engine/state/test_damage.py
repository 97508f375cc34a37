"""Whatever happens to a file of the engine: all is there, or it refuses and ``recover`` helps."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.engine.recover import recover
from sbx_jupyter.errors import SbxError
from tests.engine.state.stored_world import Opened, damage_one, make_world

ROUNDS = int(os.environ.get("SBX_DAMAGE_ROUNDS", "60"))
SEED = int(os.environ.get("SBX_DAMAGE_SEED", "1"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("world")
    contents = asyncio.run(make_world(folder / "data", folder / "left"))
    return folder / "left", contents


async def contents_of(folder: Path) -> dict[str, Any]:
    async with Opened(folder) as opened:
        assert not opened.quarantine.pending
        return opened.contents()


async def test_an_undamaged_directory_has_everything(
    world: tuple[Path, dict[str, Any]], tmp_path: Path
):
    left, contents = world
    shutil.copytree(left, tmp_path / "data")

    assert await contents_of(tmp_path / "data") == contents
    assert await contents_of(tmp_path / "data") == contents


@pytest.mark.long
@pytest.mark.timeout(ROUNDS)
def test_damage_to_any_file_of_the_engine_loses_nothing(
    world: tuple[Path, dict[str, Any]], tmp_path: Path
):
    left, contents = world
    chance = random.Random(SEED)
    refused = 0
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        shutil.copytree(left, folder)
        what = damage_one(folder, chance)
        try:
            found = asyncio.run(contents_of(folder))
        except SbxError as error:
            refused += 1
            assert "jupyter sbx recover" in error.message, what
            report = recover(folder)
            found = asyncio.run(contents_of(folder))
            assert found == contents, (what, report.lines)
        else:
            assert found == contents, what
        shutil.rmtree(folder)
    assert 0 < refused < ROUNDS


@pytest.mark.parametrize("name", ["engine.db", "engine.seq", "secrets.key", "all of the store"])
def test_a_recovery_without_the_store_has_everything(
    world: tuple[Path, dict[str, Any]], tmp_path: Path, name: str
):
    left, contents = world
    folder = tmp_path / "data"
    shutil.copytree(left, folder)
    for path in folder.glob("engine.*" if name.startswith("all") else name):
        path.unlink()

    recover(folder)

    assert asyncio.run(contents_of(folder)) == contents


def test_a_lost_key_costs_secrets_and_tokens_and_says_so(
    world: tuple[Path, dict[str, Any]], tmp_path: Path
):
    left, contents = world
    folder = tmp_path / "data"
    shutil.copytree(left, folder)
    (folder / "engine.db").unlink()
    (folder / "secrets.key").write_bytes(b"")
    (folder / "secrets.key.copy").unlink()

    report = "\n".join(recover(folder).lines)

    assert "Enter secrets again" in report
    found = asyncio.run(contents_of(folder))
    assert found["secrets"] == {}
    assert found["volumes"] == contents["volumes"]
    assert found["builds"] == contents["builds"]
    for sandbox_id, was in contents["sandboxes"].items():
        now_has = found["sandboxes"][sandbox_id]
        assert now_has[0] == was[0]
        assert now_has[2] not in (None, was[2])
        assert now_has[-1] == was[-1]
        assert f"Sandbox {sandbox_id}: its environment and network rules are lost" in report


def test_a_volume_without_row_and_manifest_gets_a_name(
    world: tuple[Path, dict[str, Any]], tmp_path: Path
):
    left, contents = world
    folder = tmp_path / "data"
    shutil.copytree(left, folder)
    (folder / "engine.db").unlink()
    lost = next((folder / "volumes").glob("*.manifest"))
    lost.unlink()

    recover(folder)

    found = asyncio.run(contents_of(folder))
    assert f"recovered-{lost.name[:8]}" in found["volumes"]
    assert sorted(found["volumes"].values()) == sorted(contents["volumes"].values())


def test_half_written_manifests_are_removed(world: tuple[Path, dict[str, Any]], tmp_path: Path):
    left, contents = world
    folder = tmp_path / "data"
    shutil.copytree(left, folder)
    whole = [next(folder.glob(what)) for what in ("manifests/templates-*", "volumes/*.manifest")]
    drafts = [path.with_name(f"{path.name}.new") for path in whole]
    for draft in drafts:
        draft.write_text("half")

    assert asyncio.run(contents_of(folder)) == contents
    assert not any(draft.exists() for draft in drafts)
    assert not (folder / "quarantine").exists()


def test_manifests_hold_no_token_and_are_private(world: tuple[Path, dict[str, Any]]):
    left, contents = world
    tokens = [each[2].encode() for each in contents["sandboxes"].values()]
    manifests = [*left.rglob("manifest"), *left.rglob("*.manifest"), *left.glob("manifests/*")]
    assert len(manifests) > 10
    for path in manifests:
        assert path.stat().st_mode & 0o777 == 0o600
        assert not any(text in path.read_bytes() for text in [*tokens, b"value-", b"from the user"])
