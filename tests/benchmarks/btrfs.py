"""An engine on a btrfs image, as ``jupyter sbx storage create`` makes one."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.cli import storage
from sbx_jupyter.errors import FailedPreconditionError, SbxError
from tests.benchmarks.harness import engine_in
from tests.mounted_disk import mount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import OwnEngine

SIZE: Final = 8 << 30
"""Bytes of the image, of which only what is written takes space."""
_TRIAL_SIZE: Final = 256 << 20


@contextlib.contextmanager
def engine_on_btrfs(*options: str) -> Iterator[OwnEngine]:
    """Start an engine on an image, and stop it and remove the image at the end."""
    with _mounted(SIZE) as folder, engine_in(folder, *options) as engine:
        yield engine


@functools.cache
def unavailable() -> str:
    """Why this machine mounts no such image; empty if it does."""
    if os.geteuid() != 0:
        return "needs root to mount"
    if shutil.which("mkfs.btrfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        return "needs mkfs.btrfs"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    try:
        with _mounted(_TRIAL_SIZE):
            return ""
    except SbxError as error:
        return " ".join(error.message.split())


@contextlib.contextmanager
def _mounted(size: int) -> Iterator[str]:
    """A folder in which ``data`` is the root of a btrfs image."""
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder:
        plan = storage.Plan(Path(folder, "image"), Path(folder, "data"), size)
        storage.make_image(plan)
        try:
            mount(plan)
        except FailedPreconditionError:
            if plan.data_dir.is_mount():  # mounted, and without quotas
                _unmount(plan.data_dir)
            raise
        try:
            yield folder
        finally:
            _unmount(plan.data_dir)


def _unmount(directory: Path) -> None:
    subprocess.run(["umount", str(directory)], check=True)
