"""Makes an image file with a file system that shares blocks between files, for the data directory.

On such a file system, a snapshot copies no data and stops a running sandbox for a moment only. With
btrfs, the kernel also holds each sandbox and each volume to its disk limit.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
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
from sbx_jupyter.isolation.kernel.loop_mounts import mount_image

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
    program = find_program(plan)
    if plan.data_dir.is_dir() and any(plan.data_dir.iterdir()):
        raise FailedPreconditionError(
            f"{plan.data_dir} is not empty: what is in it would be hidden. Root can have it moved:"
            f" {_command_for_root(plan)}; or choose another --data-dir{see('storage')}"
        )
    image = make_file(plan)
    try:
        format_file(program, plan.kind, image)
    except BaseException:
        plan.image.unlink()
        raise
    finally:
        os.close(image)


def make_file(plan: Plan) -> int:
    """Make the sparse file of a plan; gives its descriptor.

    Raises ``FailedPreconditionError`` when it exists, ``OSError``.
    """
    plan.image.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(plan.image, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise FailedPreconditionError(f"{plan.image} is there already") from None
    try:
        os.ftruncate(descriptor, plan.size)
    except BaseException:
        os.close(descriptor)
        plan.image.unlink()
        raise
    return descriptor


def _command_for_root(plan: Plan) -> str:
    """The command with which root moves what is in a data directory to an image."""
    program = [sys.executable, "-P", "-m", "sbx_jupyter.cli.main"]
    command = ["sudo", *program, "storage", "create", "--size", str(plan.size)]
    command += ["--filesystem", plan.kind, "--path", str(plan.image)]
    return shlex.join([*command, "--data-dir", str(plan.data_dir)])


def format_file(program: str, kind: Kind, image: int) -> None:
    """Make a file system in an open file. Raises ``NoSpaceError``, ``InternalError``."""
    path = f"/proc/self/fd/{image}"
    if kind == "xfs":
        command = [program, "-q", "-m", "reflink=1", path]
    else:
        # Keep one copy of the metadata: the disk below has its own protection. The root directory
        # of the file system belongs to the user who makes it.
        command = [program, "-q", "-m", "single", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[image])
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        if "No space left" in said:
            raise NoSpaceError(said)
        raise InternalError(f"{Path(program).name} failed: {said}")


def find_program(plan: Plan) -> str:
    """The path of the ``mkfs`` for a plan.

    Raises ``InvalidArgumentError`` for a size that is too small, ``FailedPreconditionError``.
    """
    if plan.size < _LEAST[plan.kind]:
        raise InvalidArgumentError(f"{plan.kind} needs at least {_LEAST[plan.kind] >> 20} MiB")
    return _program(plan.kind)


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


def mount_apart(path: Path, kind: Kind, image: int) -> int:
    """Mount an open image where no path leads; the top of its file system, as a descriptor.

    It stays until that is closed or attached. Raises ``FailedPreconditionError``.
    """
    try:
        return mount_image(image, str(path), kind)
    except OSError as error:
        raise FailedPreconditionError(
            f"{path} cannot be mounted here: {error.strerror}{see('storage')}"
        ) from error


def switch_quotas_on(tree: int) -> None:
    """Have the kernel count subvolumes of a mounted btrfs; raises ``FailedPreconditionError``."""
    for command in (["quota", "enable"], ["quota", "rescan", "-w"]):
        done = subprocess.run(
            ["btrfs", *command, f"/proc/self/fd/{tree}/."],
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[tree],
        )
        if done.returncode != 0:
            raise FailedPreconditionError(
                "it is mounted, but sandboxes on it cannot be held to their disk limit:"
                f" {done.stderr.strip()}"
            )


def mount_line(plan: Plan) -> str:
    """The command with which root mounts the image when it was mounted before."""
    arguments = [_OPTIONS[plan.kind], str(plan.image), str(plan.data_dir)]
    return f"mount -o {shlex.join(arguments)}"


def mount_command(plan: Plan) -> str:
    """The command with which root mounts the image once, and gives its owner the directory."""
    where = shlex.quote(str(plan.data_dir))
    mounting = f"mkdir -p {where} && {mount_line(plan)}"
    if plan.kind == "btrfs":
        mounting += f" && btrfs quota enable {where}"
    return f"sudo sh -c {shlex.quote(f'{mounting} && chown {os.getuid()}:{os.getgid()} {where}')}"


def fstab_line(plan: Plan) -> str:
    """The line of ``/etc/fstab`` that mounts the image at every start of the machine."""
    fields = (str(plan.image), str(plan.data_dir))
    image, where = (field.replace("\\", "\\134").replace(" ", "\\040") for field in fields)
    return f"{image} {where} {plan.kind} {_OPTIONS[plan.kind]},nofail 0 0"
