"""Snapshots and forks of a sandbox with 1 GB of files, on a disk that shares blocks."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final, cast

from tests.benchmarks import btrfs
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import at_most
from tests.benchmarks.groups import snapshots
from tests.benchmarks.harness import timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient, OwnEngine

SUBVOLUME: Final = "btrfs subvolume snapshot"


@contextlib.contextmanager
def _snapshots(engine: EngineClient) -> Iterator[Contestants]:
    """Beside a snapshot of as many files that the file system makes alone, and their ``sync``."""
    folder = cast("OwnEngine", engine).data_dir / "beside"
    source, target = folder / "source", folder / "target"
    folder.mkdir()
    _btrfs("subvolume", "create", str(source))
    subprocess.run([sys.executable, *snapshots.ARGUMENTS], cwd=source, check=True)

    def bare() -> float:
        def take() -> None:
            _btrfs("subvolume", "snapshot", str(source), str(target))
            _btrfs("filesystem", "sync", str(target))

        taken = timed(take)
        _btrfs("subvolume", "delete", str(target))
        return taken

    try:
        yield {OURS: snapshots.snapshots_of(engine), SUBVOLUME: bare}
    finally:
        _btrfs("subvolume", "delete", str(source))
        shutil.rmtree(folder)


def _btrfs(*arguments: str) -> None:
    subprocess.run(["btrfs", *arguments], check=True, stdout=subprocess.DEVNULL)


def _renamed(name: str, *, row: Row) -> Row:
    return dataclasses.replace(
        row, name=f"{name}, on btrfs", goals=(), reason="", unavailable=btrfs.unavailable
    )


_TAKE, _STOP, _, _FORK, _DISK, _CREATE = snapshots.ROWS

ROWS: Final = (
    dataclasses.replace(
        _renamed("Take a snapshot of 1 GB", row=_TAKE),
        rounds=15,
        open=_snapshots,
        goals=(at_most(0.05, "50 ms"),),
        reason="the sandbox's files are put on the disk before and after it stands still, and the"
        " record of the snapshot once more",
    ),
    dataclasses.replace(
        _renamed("Of this, the sandbox stands still", row=_STOP),
        goals=(at_most(0.05, "50 ms"),),
        reason="the file system writes what is not on the disk yet before it takes a snapshot",
    ),
    dataclasses.replace(
        _renamed(f"Fork it {snapshots.FORKS} times at once", row=_FORK),
        rounds=5,
        goals=(at_most(1.0, "1 s"),),
        reason="each fork is a sandbox that is started, none of which can be ready before",
    ),
    _renamed(f"Disk space that {snapshots.FORKS} forks take", row=_DISK),
    _renamed("Create a sandbox from the snapshot, to first output", row=_CREATE),
)
