"""Makes an image file with a file system that shares blocks between files, for the data directory.

On such a file system, a snapshot copies no data and stops a running sandbox for a moment only. With
btrfs, the kernel also holds each sandbox and each volume to its disk limit.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sbx_jupyter.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NoSpaceError,
    see,
)

Kind = Literal["btrfs", "xfs"]

_PACKAGES: Final[dict[Kind, str]] = {"btrfs": "btrfs-progs", "xfs": "xfsprogs"}
_LEAST: Final[dict[Kind, int]] = {"btrfs": 256 << 20, "xfs": 300 << 20}
"""The smallest sizes that ``mkfs`` accepts, in bytes."""

_OPTIONS: Final[dict[Kind, str]] = {"btrfs": "loop,noatime,discard", "xfs": "loop,noatime,discard"}
"""With ``discard``, deleting files frees space on the disk that holds the image."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The path, size (bytes) and file system of an image, and the directory to mount it on."""

    image: Path
    data_dir: Path
    size: int
    kind: Kind = "btrfs"


def make_image(plan: Plan) -> None:
    """Make a sparse file with an empty file system in it, owned by the current user.

    Raises ``InvalidArgumentError`` for a size that is too small, ``FailedPreconditionError`` when
    ``mkfs`` is missing, the data directory is not empty or the image exists, ``NoSpaceError``.
    """
    if plan.size < _LEAST[plan.kind]:
        raise InvalidArgumentError(f"{plan.kind} needs at least {_LEAST[plan.kind] >> 20} MiB")
    program = _program(plan.kind)
    if plan.data_dir.is_dir() and any(plan.data_dir.iterdir()):
        raise FailedPreconditionError(
            f"{plan.data_dir} is not empty: what is in it would be hidden; stop the engine and move"
            f" it away, or choose another --data-dir{see('storage')}"
        )
    plan.image.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(plan.image, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise FailedPreconditionError(f"{plan.image} is there already") from None
    try:
        try:
            os.ftruncate(descriptor, plan.size)
        finally:
            os.close(descriptor)
        _format(program, plan)
    except BaseException:
        plan.image.unlink()
        raise


def _format(program: str, plan: Plan) -> None:
    if plan.kind == "xfs":
        command = [program, "-q", "-m", "reflink=1", str(plan.image)]
    else:
        # Keep one copy of the metadata: the disk below has its own protection. The root directory
        # of the file system belongs to the user who makes it.
        command = [program, "-q", "-m", "single", str(plan.image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        if "No space left" in said:
            raise NoSpaceError(said)
        raise InternalError(f"{Path(program).name} failed: {said}")


def _program(kind: Kind) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    program = shutil.which(f"mkfs.{kind}", path=path)
    if program is None:
        raise FailedPreconditionError(
            f"mkfs.{kind} is missing: apt-get install {_PACKAGES[kind]}, or choose the other"
            f" --filesystem{see('storage')}"
        )
    return program


def may_mount() -> bool:
    """Whether this process runs as root; in a container, ``mount`` may still fail."""
    return os.geteuid() == 0


def mount(plan: Plan) -> None:
    """Mount the image on the data directory; raises ``FailedPreconditionError``."""
    plan.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = ["mount", "-o", _OPTIONS[plan.kind], str(plan.image), str(plan.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FailedPreconditionError(
            f"{plan.image} is made, but cannot be mounted here: {done.stderr.strip()}"
        )
    plan.data_dir.chmod(0o700)
    if plan.kind == "btrfs":
        _switch_quotas_on(plan.data_dir)


def _switch_quotas_on(data_dir: Path) -> None:
    for command in (["quota", "enable"], ["quota", "rescan", "-w"]):
        done = subprocess.run(
            ["btrfs", *command, str(data_dir)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise FailedPreconditionError(
                f"{data_dir} is mounted, but sandboxes on it cannot be held to their disk limit:"
                f" {done.stderr.strip()}"
            )


def mount_command(plan: Plan) -> str:
    """The command with which root mounts the image once, and gives its owner the directory."""
    where = shlex.quote(str(plan.data_dir))
    image = shlex.quote(str(plan.image))
    mounting = f"mkdir -p {where} && mount -o {_OPTIONS[plan.kind]} {image} {where}"
    if plan.kind == "btrfs":
        mounting += f" && btrfs quota enable {where}"
    return f"sudo sh -c {shlex.quote(f'{mounting} && chown {os.getuid()}:{os.getgid()} {where}')}"


def fstab_line(plan: Plan) -> str:
    """The line of ``/etc/fstab`` that mounts the image at every start of the machine."""
    fields = (str(plan.image), str(plan.data_dir))
    image, where = (field.replace("\\", "\\134").replace(" ", "\\040") for field in fields)
    return f"{image} {where} {plan.kind} {_OPTIONS[plan.kind]},nofail 0 0"
