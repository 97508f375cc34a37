"""Mounts what sandboxes are made of, once, in the zygote's mount namespace."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls, users
from sbx_jupyter.isolation.root import rootfs, stock_plan
from sbx_jupyter.isolation.root.private_entries import private_entries

_DEVICES = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))
_DEV_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)


MASKS: Final = ".masks"
"""Ends the name of the directory beside a stock layer that hides entries of chosen directories."""

_PRIVATE = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
"""Of the data directory: what sandboxes leave there has no power outside of their overlays."""


@dataclass(frozen=True, slots=True)
class HostMounts:
    """Where the zygote has mounted what sandboxes are made of, in its own mount namespace."""

    root: str
    """An empty directory: the mount point of each new root."""
    dev: str
    data: str
    """The data directory, idmapped where ids are mapped."""
    trees: tuple[tuple[stock_plan.HostTree, str], ...]
    stock: str
    """Relative to ``data``."""
    mapped: tuple[str, ...] = ()
    """What a sandbox with ids of its own needs once more, with these: see ``map_to``."""


def prepare(
    data: Path,
    plan: stock_plan.StockPlan,
    id_base: int,
    *,
    own_ids: bool = False,
    stock: str | None = None,
) -> HostMounts:
    """Mount what sandboxes are made of on a private tmpfs of this mount namespace.

    ``id_base``: the host id of all sandboxes' root, or 0 for ids as they are; with ``own_ids`` each
    sandbox has others. ``stock``: the stock layer that exists already, below ``data``. Else it is
    built here, since what it hides is found in the mounted trees: other mounts of the host may
    cover what they show. Raises ``OSError``.
    """
    _enter_scratch(data / "zygote")
    Path("root").mkdir()
    _make_dev(Path("dev"))
    owner = namespace_of_ids(id_base) if id_base else None
    trees = [(tree, f"tree{index}") for index, tree in enumerate(plan.trees) if _is_there(tree)]
    kept = {name for tree, name in trees if _can_keep_ids(tree)}
    try:
        _clone(str(data), "data", owner, _PRIVATE)
        for tree, name in trees:
            attributes = 0 if tree.writable else syscalls.MOUNT_ATTR_RDONLY
            _clone(tree.path, name, None if name in kept else owner, attributes)
    finally:
        if owner is not None:
            os.close(owner)
    if stock is None or not (data / stock).is_dir():
        stock = _build_stock(data, plan, trees)
    names = ("data", *(name for _, name in trees if name not in kept)) if own_ids else ()
    return HostMounts("root", "dev", "data", tuple(trees), stock, names)


def _enter_scratch(scratch: Path) -> None:
    """Mount a tmpfs that only this mount namespace has, and make it the working directory.

    A sandbox's ids may not pass the private data directory, but a clone keeps the working
    directory, translated to its own copy of the mounts: everything is found from there.
    """
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    scratch.mkdir(exist_ok=True)
    syscalls.mount(
        "zygote", str(scratch), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m"
    )
    os.chdir(scratch)


def _build_stock(
    data: Path, plan: stock_plan.StockPlan, trees: list[tuple[stock_plan.HostTree, str]]
) -> str:
    """Build the stock layer of the mounted trees; gives its path below ``data``."""
    found = [
        (tree.chosen, f"{tree.path}/{path}")
        for tree, name in trees
        for path in private_entries(name, tree.path, plan.needed)
    ]
    stock = f"stock/{stock_plan.stock_name(plan, [path for _, path in found])}"
    rootfs.build_stock(plan, data / stock, [path for chosen, path in found if not chosen])
    masks = [path for chosen, path in found if chosen]
    rootfs.build_masks(plan, data / f"{stock}{MASKS}", masks)
    return stock


def map_to(pid: int, host: HostMounts) -> list[int]:
    """Detached mounts of ``host.mapped``, with the ids of the user namespace of ``pid``.

    The caller owns the descriptors. Raises ``OSError``.
    """
    trees: list[int] = []
    if not host.mapped:
        return trees
    owner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for name in host.mapped:
            tree = syscalls.open_tree(name)
            trees.append(tree)
            idmap = syscalls.MOUNT_ATTR_IDMAP
            syscalls.mount_setattr(tree, attributes=idmap, user_namespace=owner)
    except OSError:
        for tree in trees:
            os.close(tree)
        raise
    finally:
        os.close(owner)
    return trees


def _is_there(tree: stock_plan.HostTree) -> bool:
    """Whether a tree can be shown: a chosen one may have gone, or be closed to others by now."""
    if not tree.chosen:
        return True
    path = tree.path
    return os.path.realpath(path) == path and os.path.isdir(path) and _can_keep_ids(tree)


def _can_keep_ids(tree: stock_plan.HostTree) -> bool:
    """Whether sandboxes may see the files of a tree as files of nobody.

    The kernel itself then refuses what others may not read, also what is private only later. What
    is written needs an owner inside, and so does what is open to its owner alone.
    """
    return not tree.writable and os.stat(tree.path).st_mode & 0o005 == 0o005


def _clone(source: str, name: str, owner: int | None, attributes: int) -> None:
    """Show ``source`` at ``name``, with the ids of the sandboxes where those are mapped."""
    tree = syscalls.open_tree(source)
    if owner is not None:
        attributes |= syscalls.MOUNT_ATTR_IDMAP
    if attributes:
        syscalls.mount_setattr(tree, attributes=attributes, user_namespace=owner or 0)
    os.mkdir(name)
    syscalls.move_mount(tree, name)
    os.close(tree)


def namespace_of_ids(base: int) -> int:
    """A descriptor of a user namespace with the sandboxes' ids, for idmapped mounts."""
    release, held = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = syscalls.fork_into(syscalls.CLONE_NEWUSER)
    if pid == 0:
        os.close(held)
        os.read(release, 1)
        os._exit(0)
    try:
        extent = f"0 {base} {users.RANGE}"
        users.write_maps(pid, extent, extent)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (release, held, pidfd):
            os.close(fd)


def _make_dev(path: Path) -> None:
    """The sandboxes' /dev: one read-only tmpfs for all of them."""
    path.mkdir()
    syscalls.mount(
        "dev", str(path), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, "mode=755,size=64k"
    )
    for name, major, minor in (*((n, 1, m) for n, m in _DEVICES), ("tty", 5, 0)):
        node = path / name
        try:
            os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            node.chmod(0o666)
        except PermissionError:
            node.touch()
            syscalls.mount(f"/dev/{name}", str(node), "", syscalls.MS_BIND)
    for name, target in _DEV_LINKS:
        (path / name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        (path / name).mkdir()
    syscalls.mount(
        "", str(path), "",
        syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | syscalls.MS_NOSUID
        | syscalls.MS_NOEXEC,
    )  # fmt: skip
