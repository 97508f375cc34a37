"""Moves a data directory into the file system of an image, and mounts that in its place.

The directory stays in use, locked against engines, until the copy is complete and on the disk. Then
it changes places with a marked mount point, in one step: before it the old data is in use, after it
the new. The mark tells what belongs there, so an engine does not begin anew where nothing is
mounted, and says how far a move came that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as replace_fields

from sbx_jupyter.agent.procfs import boot_id, start_time_of
from sbx_jupyter.cli import storage
from sbx_jupyter.cli.moved_bytes import MovedBytes
from sbx_jupyter.cli.sizes import show_size
from sbx_jupyter.engine.state.datadir import is_no_space, take_lock
from sbx_jupyter.engine.state.mount_point import (
    DRAFT,
    MountPoint,
    read_mark,
    remove_mark,
    write_mark,
)
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NoSpaceError,
    see,
)
from sbx_jupyter.isolation.kernel import subvolumes, syscalls
from sbx_jupyter.isolation.stored.trees import sync_filesystem
from sbx_jupyter.isolation.trees.mirror import Mirror
from sbx_jupyter.isolation.trees.survey import Survey, survey
from sbx_jupyter.isolation.zygote.cage_records import CageRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EXCHANGE: Final = 2
_APART: Final = ("sandboxes", "volumes")
"""Each directory in these becomes a subvolume, where there are some."""

_CHANGES: Final = re.compile(r"[a-z]+\.lock|[a-z]+\.log|probe-.*")
"""Files that programs write at the top meanwhile, when they find no engine."""

_PER_ENTRY: Final = 1024
_SPARE: Final = 96 << 20
"""Bytes that a new file system takes itself, and for each entry, at most."""


@dataclass(slots=True)
class _Places:
    """The directories that change places, and the one that both are in, open."""

    plan: storage.Plan
    parent: int
    data: int
    tell: Callable[[str], None]

    @property
    def name(self) -> str:
        return self.plan.data_dir.name

    @property
    def before(self) -> str:
        return f"{self.name}.before"

    @property
    def kept(self) -> Path:
        return self.plan.data_dir.with_name(self.before)


def move(plan: storage.Plan, tell: Callable[[str], None]) -> Path | None:
    """Have a data directory in an image, mounted; gives where the old data is kept, if any.

    Goes on where an earlier move was killed; ``tell`` gets lines for a person. Must be root.
    Interrupted or failed, it leaves all as it was. Raises ``FailedPreconditionError`` while an
    engine or a sandbox uses the directory, ``InvalidArgumentError``, ``NoSpaceError``,
    ``InternalError``, ``OSError``.
    """
    plan = replace(plan, data_dir=plan.data_dir.resolve(), image=plan.image.resolve())
    plan.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _open(str(plan.data_dir.parent)) as parent, _open(plan.data_dir.name, parent) as data:
        places = _Places(plan, parent, data, tell)
        if (mark := read_mark(data, own=True)) is not None:
            return _finish(places, mark)
        _check_place(places)
        try:
            lock = take_lock(Path(_path(data)), plan.data_dir)
        except FailedPreconditionError as error:
            raise FailedPreconditionError(
                f"{error.message}: stop it first, as its user, with `jupyter sbx stop`"
                f"{see('storage')}"
            ) from error
        try:
            _sign(lock, os.fstat(data))
            _refuse_living(plan.data_dir, data)
            _clean_up(places)
            return _move(places)
        finally:
            os.close(lock)


def _sign(lock: int, status: os.stat_result) -> None:
    """Write this process into the lock file, which keeps the owner whose engine uses it."""
    if os.fstat(lock).st_uid != status.st_uid:
        os.fchown(lock, status.st_uid, status.st_gid)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _finish(places: _Places, mark: MountPoint) -> Path | None:
    """Mount what an earlier call had moved, or what is not mounted since the machine started."""
    image = Path(mark.image)
    places.tell(f"What belongs in {places.plan.data_dir} is in {image}, which is not mounted.")
    if not mark.is_whole:
        raise FailedPreconditionError(f"{image} is not complete{_hint_at_old(places)}")
    fcntl.flock(places.data, fcntl.LOCK_EX)
    with _open(places.name, places.parent) as now_there:
        if not os.path.samestat(os.fstat(now_there), os.fstat(places.data)):
            raise FailedPreconditionError("another call has just mounted it")
    kind: storage.Kind = "xfs" if mark.kind == "xfs" else "btrfs"
    try:
        opened = os.open(image, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FailedPreconditionError(
            f"{image} is missing: put it back{_hint_at_old(places)}"
        ) from None
    try:
        tree = storage.mount_apart(image, kind, opened)
        try:
            syscalls.move_mount(tree, "", directory=places.data)
        finally:
            os.close(tree)
    finally:
        os.close(opened)
    return places.kept if places.kept.is_dir() else None


def _hint_at_old(places: _Places) -> str:
    if not places.kept.is_dir():
        return ""
    return f", or give {places.kept}, the data from before the move, the name {places.name}"


def _check_place(places: _Places) -> None:
    plan = places.plan
    if os.fstat(places.data).st_dev != os.fstat(places.parent).st_dev:
        raise FailedPreconditionError(
            f"{plan.data_dir} is a file system of its own, which cannot change places with another"
        )
    if plan.data_dir in (plan.image, *plan.image.parents):
        raise InvalidArgumentError(
            f"{plan.image} would be in the data directory: choose a --path{see('storage')}"
        )


def _refuse_living(data_dir: Path, data: int) -> None:
    """Sandboxes may outlive their engine, and write to where they were."""
    records = CageRecords(Path(_path(data)) / "cages").read_all(lambda line: None)
    living = [
        sandbox_id
        for sandbox_id, cage in records.items()
        if cage["boot_id"] == boot_id() and start_time_of(cage["pid"]) == cage["start_time"]
    ]
    if living:
        raise FailedPreconditionError(
            f"{len(living)} sandboxes of {data_dir} still have processes, without an engine"
            f" ({', '.join(sorted(living)[:3])}): start the engine, pause what you want to keep,"
            f" and stop it with `jupyter sbx stop`{see('storage')}"
        )


def _clean_up(places: _Places) -> None:
    """Remove what a move that was killed while it copied has left."""
    try:
        before = os.open(places.before, _FOLDER, dir_fd=places.parent)
    except FileNotFoundError:
        return
    try:
        mark = read_mark(before, own=True)
        if mark is None and {*_names(before)} - {DRAFT}:
            raise FailedPreconditionError(
                f"{places.kept} is there already, perhaps the data from before an earlier move:"
                f" remove it or give it another name{see('storage')}"
            )
        places.tell("An earlier move was cut short; the data is as it was before.")
        if mark is not None:
            _remove_image(places, mark)
        remove_mark(before)
    finally:
        os.close(before)
    os.rmdir(places.before, dir_fd=places.parent)


def _remove_image(places: _Places, mark: MountPoint) -> None:
    image = Path(mark.image)
    try:
        status = image.lstat()
    except FileNotFoundError:
        return
    # It was noted under its number before anything was in it.
    is_ours = mark.inode == status.st_ino or (mark.inode == 0 and status.st_blocks == 0)
    if not stat.S_ISREG(status.st_mode) or not is_ours:
        return
    image.unlink()
    places.tell(f"Removed its incomplete image {image}.")


def _move(places: _Places) -> Path | None:
    plan = places.plan
    program = storage.find_program(plan)
    if plan.image.exists():
        raise FailedPreconditionError(f"{plan.image} is there already")
    found = _survey(places.data)
    _check_space(plan, found)
    with contextlib.ExitStack() as undo:
        os.mkdir(places.before, 0o700, dir_fd=places.parent)
        undo.callback(os.rmdir, places.before, dir_fd=places.parent)
        spot = os.open(places.before, _FOLDER, dir_fd=places.parent)
        undo.callback(os.close, spot)
        undo.callback(remove_mark, spot)
        mark = MountPoint(image=str(plan.image), kind=plan.kind, command=storage.mount_line(plan))
        write_mark(spot, mark)
        image = storage.make_file(plan)
        undo.callback(plan.image.unlink)
        undo.callback(os.close, image)
        mark = replace_fields(mark, inode=os.fstat(image).st_ino)
        write_mark(spot, mark)
        status = os.fstat(places.data)
        os.fchown(spot, status.st_uid, status.st_gid)
        storage.format_file(program, plan.kind, image)
        tree = storage.mount_apart(plan.image, plan.kind, image)
        undo.callback(os.close, tree)
        _fill(places, tree, found)
        _sync(plan, tree, image)
        write_mark(spot, replace_fields(mark, is_whole=True))
        with _uninterrupted():
            kept = undo.pop_all()
            try:
                _swap(places, spot, tree)
            except FailedPreconditionError:
                undo.enter_context(kept)
                raise
        for descriptor in (tree, image, spot):
            os.close(descriptor)
    return _keep(places, found)


def _survey(folder: int) -> Survey:
    return survey(_path(folder), apart=_APART, ignored=_CHANGES)


def _check_space(plan: storage.Plan, found: Survey) -> None:
    needed = found.disk + found.disk // 20 + found.entries * _PER_ENTRY + _SPARE
    if plan.size < needed:
        raise InvalidArgumentError(
            f"what is in {plan.data_dir} takes up to {show_size(needed)} on the new disk: choose"
            f" at least this --size{see('storage')}"
        )
    plan.image.parent.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(plan.image.parent)
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise NoSpaceError(
            f"to move {plan.data_dir}, its disk has to hold it twice for a while:"
            f" {show_size(needed)} more in {plan.image.parent}, where {show_size(free)} are free,"
            f" so {show_size(needed - free)} are missing; --path puts the image on another disk"
            f"{see('storage')}"
        )


def _fill(places: _Places, tree: int, found: Survey) -> None:
    """Copy everything into a mounted image and compare. Raises ``SbxError``."""
    shown = MovedBytes(found.disk, places.tell)
    try:
        if places.plan.kind == "btrfs":
            storage.switch_quotas_on(tree)
        _make_subvolumes(places.data, Path(_path(tree)))
        Mirror(_path(places.data), _path(tree), still=True, progress=shown).run()
    except OSError as error:
        if is_no_space(error):
            raise NoSpaceError(
                f"no space left in the image or on its disk: choose a larger --size ({error})"
                f"{see('storage')}"
            ) from error
        raise InternalError(f"{places.plan.data_dir} cannot be copied: {error}") from error
    finally:
        shown.close()
    if differences := found.differences(_survey(tree)):
        raise InternalError(f"the copy is not complete: {', '.join(differences)}")


def _make_subvolumes(data: int, top: Path) -> None:
    """Make what snapshots are taken of, so that the copy of a sandbox has them without copying."""
    for folder in _APART:
        try:
            opened = _open(folder, data)
            with opened as source, os.scandir(source) as listing:
                names = [each.name for each in listing if each.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            continue
        (top / folder).mkdir(mode=0o700)
        for name in names:
            subvolumes.make_folder(top / folder / name)


def _sync(plan: storage.Plan, tree: int, image: int) -> None:
    """Have the copy on the disk, below the file system in the image as well. ``OSError``."""
    sync_filesystem(Path(_path(tree)))
    os.fsync(image)
    with _open(str(plan.image.parent)) as folder:
        os.fsync(folder)


def _swap(places: _Places, spot: int, tree: int) -> None:
    """Put the marked mount point in the place of the old data, and mount the new one there.

    Raises ``FailedPreconditionError`` when the old data is in its place, and ``OSError`` when it
    could not be put back.
    """
    plan = places.plan
    try:
        _exchange(places)
    except OSError as error:
        raise FailedPreconditionError(f"{plan.data_dir} cannot be moved: {error}") from error
    try:
        os.fsync(places.parent)
        syscalls.move_mount(tree, "", directory=spot)
    except OSError as error:
        _exchange(places)
        raise FailedPreconditionError(f"{plan.image} cannot be mounted here: {error}") from error


def _exchange(places: _Places) -> None:
    first, second = os.fsencode(places.name), os.fsencode(places.before)
    syscalls.call("renameat2", places.parent, first, places.parent, second, _EXCHANGE)


def _keep(places: _Places, found: Survey) -> Path | None:
    """Path of the old data, which is kept; a directory that held nothing is removed."""
    if found.entries:
        return places.kept
    with contextlib.suppress(OSError):  # somebody has put something there: it is kept
        with _open(places.before, places.parent) as before:
            for name in _names(before):
                if _CHANGES.fullmatch(name):
                    os.unlink(name, dir_fd=before)
        os.rmdir(places.before, dir_fd=places.parent)
        return None
    return places.kept


@contextlib.contextmanager
def _open(name: str, parent: int | None = None) -> Generator[int]:
    """A directory, open meanwhile, that no link leads to. Raises ``OSError``."""
    descriptor = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _uninterrupted() -> Generator[None]:
    """Let Ctrl-C wait until the context ends."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _path(folder: int) -> str:
    return f"/proc/self/fd/{folder}/."
