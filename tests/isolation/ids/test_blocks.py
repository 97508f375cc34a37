"""The registry of blocks of host ids, and the process that holds them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.ids.blocks import CONTAINER_IDS, SIZE, Blocks, IdRange, NoBlockLeftError
from sbx_jupyter.isolation.ids.holder import Holder
from sbx_jupyter.isolation.ids.local_ids import LocalIds
from sbx_jupyter.isolation.kernel import syscalls, users
from tests.waiting import until

if TYPE_CHECKING:
    from sbx_jupyter.isolation.ids.blocks import Block

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root, whose ids these are")

TWO_BLOCKS = IdRange(10 * SIZE, 12 * SIZE - 1)


@pytest.fixture
def registry(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "blocks")


def no_local_ids(folder: Path) -> LocalIds:
    return LocalIds(str(folder / "no-etc"))


def blocks(registry: str, tmp_path: Path, ids: IdRange = TWO_BLOCKS) -> Blocks:
    return Blocks(ids, no_local_ids(tmp_path), registry)


def taken_bases(*taken: Block) -> list[int]:
    return sorted(block.base for block in taken)


def test_a_block_lies_in_the_range_and_begins_at_a_multiple_of_its_size(
    registry: str, tmp_path: Path
) -> None:
    block = blocks(registry, tmp_path, CONTAINER_IDS).take()
    os.close(block.lock)
    assert block.base % SIZE == 0
    assert CONTAINER_IDS.first <= block.base
    assert block.base + SIZE - 1 <= CONTAINER_IDS.last


def test_two_engines_never_get_the_same_block_and_exhaustion_is_said(
    registry: str, tmp_path: Path
) -> None:
    one, other = blocks(registry, tmp_path), blocks(registry, tmp_path)
    first, second = one.take(), other.take()
    assert taken_bases(first, second) == [10 * SIZE, 11 * SIZE]
    for engine in (one, other):
        with pytest.raises(NoBlockLeftError, match=r"from 655360 to 786431 is in use.*host_ids"):
            engine.take()
    os.close(first.lock)
    again = other.take()
    assert again.base == first.base
    os.close(again.lock)
    os.close(second.lock)


def test_a_lock_is_held_until_the_process_ends_though_who_took_it_is_gone(
    registry: str, tmp_path: Path
) -> None:
    sandbox = subprocess.Popen(["sleep", "1000"])
    taker = os.fork()
    if taker == 0:  # a zygote that forks a holder, takes a block, hands it over and is killed
        block = blocks(registry, tmp_path, IdRange(10 * SIZE, 11 * SIZE - 1)).take()
        Holder().keep(os.pidfd_open(sandbox.pid), block)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(taker, 0)
    engine = blocks(registry, tmp_path, IdRange(10 * SIZE, 11 * SIZE - 1))
    try:
        with pytest.raises(NoBlockLeftError):
            engine.take()
        assert engine.retake(10 * SIZE) is None
        assert Path(registry).read_bytes()[10] == 1
    finally:
        sandbox.kill()
        sandbox.wait()
    until(lambda: Path(registry).read_bytes()[10] == 0)
    block = until(lambda: engine.retake(10 * SIZE))
    os.close(block.lock)


def test_a_block_without_a_holder_is_not_given_out_while_a_process_lives_in_it(
    registry: str, tmp_path: Path
) -> None:
    engine = blocks(registry, tmp_path, IdRange(10 * SIZE, 11 * SIZE - 1))
    os.close(engine.take().lock)  # as if its holder had been killed
    pid, pidfd = syscalls.fork_into(syscalls.CLONE_NEWUSER)
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        users.write_maps(pid, f"0 {10 * SIZE} {SIZE}", f"0 {10 * SIZE} {SIZE}")
        with pytest.raises(NoBlockLeftError):
            engine.take()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(pidfd)
    block = until(lambda: attempt(engine))  # it has ended, but nobody has waited for it
    os.waitpid(pid, 0)
    os.close(block.lock)


def attempt(engine: Blocks) -> Block | None:
    try:
        return engine.take()
    except NoBlockLeftError:
        return None


def test_a_registry_of_another_user_is_refused(registry: str, tmp_path: Path) -> None:
    folder = os.path.dirname(registry)
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    with pytest.raises(OSError, match="others may write"):
        blocks(registry, tmp_path)
    os.chmod(folder, 0o755)
    with open(registry, "x"):
        os.chown(registry, 1001, 1001)
    with pytest.raises(OSError, match="belongs to somebody else"):
        blocks(registry, tmp_path)
    os.unlink(registry)
    os.symlink("/etc/passwd", registry)
    with pytest.raises(OSError, match="symbolic links"):
        blocks(registry, tmp_path)


def test_blocks_of_other_users_are_left_out(registry: str, tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "subuid").write_text(f"neighbour:{10 * SIZE + 7}:10\n")
    engine = Blocks(TWO_BLOCKS, LocalIds(str(etc)), registry)
    only = engine.take()
    assert only.base == 11 * SIZE
    os.close(only.lock)
    (etc / "passwd").write_text(f"late:x:{12 * SIZE - 1}:100::/:/bin/sh\n")
    with pytest.raises(NoBlockLeftError):
        engine.take()


@pytest.mark.parametrize(
    ("name", "line", "inside", "outside"),
    [
        ("subuid", "neighbour:700000:65536", (765535, 1), (765536, 1)),
        ("subgid", "neighbour:700000:65536", (600000, 100001), (600000, 100000)),
        ("passwd", "some:x:700000:1::/:/bin/sh", (700000, 1), (700001, 9)),
        ("passwd", "some:x:1:700000::/:/bin/sh", (700000, 1), (699999, 1)),
        ("group", "some:x:700000:", (699999, 2), (700001, 2)),
    ],
)
def test_ids_of_others_are_found(
    tmp_path: Path, name: str, line: str, inside: tuple[int, int], outside: tuple[int, int]
) -> None:
    tmp_path.joinpath(name).write_text(f"junk\n:::\na:b:c\nx:-1:²\n{line}\nroot:x:0:0::/:\n")
    ids = LocalIds(str(tmp_path))
    assert ids.overlap(*inside)
    assert not ids.overlap(*outside)


def test_ids_of_a_directory_service_and_ranges_in_ranges_count(tmp_path: Path) -> None:
    ranges = [(random.randrange(10**6), random.randrange(1000)) for _ in range(100)]
    lines = "".join(f"u:{start}:{count}\n" for start, count in ranges)
    tmp_path.joinpath("subuid").write_text(lines)
    ids = LocalIds(str(tmp_path), known=[2_000_000])
    for first in random.sample(range(10**6), 200):
        owned = any(start < first + 50 and first < start + count for start, count in ranges)
        assert ids.overlap(first, 50) == owned
    assert ids.overlap(2_000_000, 1)


@pytest.mark.parametrize("text", ["", "1", "1-2-3", "0-70000", "655361-786430", "9-8", "-5-9"])
def test_a_range_without_a_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"FIRST-LAST|no block"):
        IdRange.parse(text)
