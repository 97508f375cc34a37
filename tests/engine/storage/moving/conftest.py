"""A data directory of every kind of entry, on a disk where images can be mounted."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.cli import main, storage
from sbx_jupyter.engine.state.mount_point import MARK
from sbx_jupyter.errors import FailedPreconditionError
from tests.engine.storage.test_storage import missing
from tests.mounted_disk import mount

SANDBOX = "sandboxes/i0123456789abcdefghij"
OTHER = "sandboxes/iabcdefghij0123456789"
VOLUME = "volumes/01234567-89ab-cdef-0123-456789abcdef"
OWNER = 1004
CONTENT = b"content" * 1000


@dataclass
class World:
    """A data directory of every kind of entry, without an engine."""

    data: Path

    @property
    def before(self) -> Path:
        return self.data.with_name("data.before")

    @property
    def image(self) -> Path:
        return self.data.with_name("data.img")

    def command(self, *more: str, size: str = "400M") -> list[str]:
        return ["storage", "create", "--size", size, "--data-dir", str(self.data), *more]

    def run(self, *more: str, **fields: str) -> int:
        return main.main(self.command(*more, **fields))

    def is_as_before(self) -> bool:
        """Whether the old data is in use, and nothing else there."""
        there = sorted(path.name for path in self.data.parent.iterdir())
        return there == ["data"] and not os.path.ismount(self.data) and self.is_whole()

    def is_whole(self) -> bool:
        return described(self.data) == self.described

    def __post_init__(self) -> None:
        fill(self.data)
        self.described = described(self.data)


def fill(data: Path) -> None:
    for folder in (f"{SANDBOX}/upper/deep/er", f"{OTHER}/upper", f"{SANDBOX}/work/work", VOLUME,
                   "layers/one", "cages", "run"):  # fmt: skip
        (data / folder).mkdir(parents=True)
    data.chmod(0o700)
    (data / "engine.db").write_bytes(CONTENT)
    (data / "engine.log").write_text("started\n")
    upper = data / SANDBOX / "upper"
    (upper / "file").write_bytes(CONTENT)
    (upper / "second").hardlink_to(upper / "file")
    (upper / "link").symlink_to("/etc/passwd")
    os.mkfifo(upper / "fifo")
    os.mknod(upper / "whiteout", stat.S_IFCHR | 0o000, os.makedev(0, 0))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(data / "run" / "agent.sock"))
    os.setxattr(upper / "deep", "trusted.overlay.opaque", b"y")
    os.setxattr(upper / "file", "user.note", b"kept")
    with (upper / "sparse").open("wb") as file:
        file.seek(30 << 20)
        file.write(b"end")
    os.chown(upper / "deep" / "er", 100_000, 100_001)
    (upper / "deep" / "er").chmod(0o1751)
    (data / SANDBOX / "work" / "work").chmod(0)
    os.link(upper / "file", data / OTHER / "upper" / "shared")
    (data / VOLUME / "file").write_bytes(CONTENT)
    os.utime(upper / "file", ns=(1_234_567_891_234_567_891, 1_234_567_891_234_567_892))


def described(data: Path) -> dict[str, tuple[Any, ...]]:
    """All that a copy has to keep of each entry, by its path."""
    found: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(data):
        for name in [*folders, *files]:
            path = Path(folder, name)
            status = path.lstat()
            where = str(path.relative_to(data))
            if where == "engine.lock":
                continue
            more: tuple[Any, ...] = ()
            if stat.S_ISREG(status.st_mode):
                links = status.st_nlink
                if path.name in ("file", "second", "shared"):
                    links = 0  # one name of the three is in another sandbox
                more = (path.read_bytes(), links, status.st_mtime_ns)
            elif stat.S_ISLNK(status.st_mode):
                more = (path.readlink(),)
            elif stat.S_ISDIR(status.st_mode):
                more = (status.st_mtime_ns,)
            if not stat.S_ISLNK(status.st_mode):
                more += tuple(sorted((key, os.getxattr(path, key)) for key in os.listxattr(path)))
            found[where] = (status.st_mode, status.st_uid, status.st_gid, status.st_rdev, *more)
    return found


@pytest.fixture
def world() -> Iterator[World]:
    if why := missing("btrfs"):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="plat-move-", dir="/tmp"))
    try:
        if why := mounts_none(folder):
            pytest.skip(why)
        yield World(folder / "data")
    finally:
        while os.path.ismount(folder / "data"):
            subprocess.run(["umount", str(folder / "data")], check=True)
        shutil.rmtree(folder)


def mounts_none(folder: Path) -> str:
    """Why this machine mounts no image; empty when it does."""
    plan = storage.Plan(folder / "probe.img", folder / "probe", 256 << 20)
    storage.make_image(plan)
    try:
        mount(plan)
    except FailedPreconditionError as error:
        return f"this machine mounts no image: {error.message}"
    finally:
        plan.image.unlink()
    subprocess.run(["umount", str(plan.data_dir)], check=True)
    plan.data_dir.rmdir()
    return ""


def check_moved(world: World) -> None:
    assert os.path.ismount(world.data)
    assert world.is_whole()
    upper = world.data / SANDBOX / "upper"
    assert (upper / "file").samefile(upper / "second")
    assert (upper / "sparse").stat().st_blocks < 1000
    assert not (world.data / MARK).exists()
    assert described(world.before) == world.described, "the old data is kept"
    assert stat.S_IMODE(world.data.stat().st_mode) == 0o700
    assert world.image.stat().st_mode & 0o077 == 0
