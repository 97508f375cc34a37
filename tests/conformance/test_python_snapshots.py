"""Snapshots, forks and pauses with the unmodified client."""

from __future__ import annotations

from typing import Literal

import pytest
from e2b import Sandbox


@pytest.fixture
def created():
    made: list[Sandbox] = []
    yield made
    for sandbox in made:
        sandbox.kill()


def test_a_sandbox_starts_from_a_snapshot_that_outlives_its_source(created: list[Sandbox]):
    source = Sandbox.create(timeout=600)
    created.append(source)
    source.files.write("/home/user/kept.txt", "kept")

    snapshot = source.create_snapshot(name="conformance-kept:v1")
    source.kill()
    copy = Sandbox.create(template=snapshot.snapshot_id, timeout=600)
    created.append(copy)

    assert snapshot.snapshot_id == "local/conformance-kept:v1"
    assert copy.files.read("/home/user/kept.txt") == "kept"
    listed = Sandbox.list_snapshots(sandbox_id=source.sandbox_id).next_items()
    assert [item.snapshot_id for item in listed] == [snapshot.snapshot_id]
    copy.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False


def test_forks_have_the_files_of_their_source(created: list[Sandbox]):
    source = Sandbox.create(timeout=600, envs={"MINE": "1"})
    created.append(source)
    source.files.write("/home/user/shared.txt", "shared")

    forks = source.fork(count=2, timeout=600)

    assert len(forks) == 2
    for fork in forks:
        sandbox = getattr(fork, "sandbox", fork)
        assert isinstance(sandbox, Sandbox), sandbox
        created.append(sandbox)
        assert sandbox.sandbox_id != source.sandbox_id
        assert sandbox.files.read("/home/user/shared.txt") == "shared"
        assert sandbox.commands.run("echo $MINE").stdout == "1\n"


@pytest.mark.parametrize("mode", [None, "filesystem"])
def test_a_paused_sandbox_is_connected_to_again(
    created: list[Sandbox], mode: Literal["filesystem"] | None
):
    sandbox = Sandbox.create(timeout=600)
    created.append(sandbox)
    sandbox.files.write("/home/user/kept.txt", "kept")

    assert (sandbox.pause() if mode is None else sandbox.pause(mode=mode)) is True
    assert sandbox.pause() is False
    assert not sandbox.is_running()
    assert Sandbox.get_info(sandbox.sandbox_id).state.value == "paused"
    again = Sandbox.connect(sandbox.sandbox_id, timeout=600)

    assert again.is_running()
    assert again.files.read("/home/user/kept.txt") == "kept"
