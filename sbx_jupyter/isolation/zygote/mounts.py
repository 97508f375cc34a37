"""The root file system that a sandbox sees, mounted from the inside before any of its code.

Content of layers and volumes may be hostile: it is walked by descriptors, and no symbolic link in
it is ever followed (``kernel.contained``).
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import contained, syscalls
from sbx_jupyter.isolation.zygote import kernel_limits
from sbx_jupyter.isolation.zygote.host_mounts import MASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.zygote.host_mounts import HostMounts
    from sbx_jupyter.isolation.zygote.order import Order

_MASKED_PROC: Final = ("keys", "key-users")
"""Readable by every id, and not about this sandbox alone."""

_MASKED_PROC_OF_ROOT: Final = (
    "acpi", "asound", "kallsyms", "kcore", "kmsg", "kpagecgroup", "kpagecount", "kpageflags",
    "latency_stats", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list",
    "timer_stats", "vmallocinfo",
)  # fmt: skip
"""Closed to the ids of a sandbox, except where its root is the machine's root."""

_READ_ONLY_PROC: Final = ("sys",)
_READ_ONLY_PROC_OF_ROOT: Final = ("bus", "fs", "irq")

_REMOUNT_READ_ONLY: Final = (
    syscalls.MS_REMOUNT
    | syscalls.MS_BIND
    | syscalls.MS_RDONLY
    | syscalls.MS_NOSUID
    | syscalls.MS_NODEV
)
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_PID_MAX: Final = "/proc/sys/kernel/pid_max"
_SHM_SIZE: Final = "size=64m"


def mount_root(order: Order, host: HostMounts, mapped: Sequence[int] = ()) -> None:
    """Mount the layers of a sandbox and what the kernel shows, and make it this process's root.

    ``mapped`` are the mounts that ``host_mounts.map_to`` gave; they are closed. Raises
    ``LinkInTheWayError`` for content that turns a place to mount at into something else, else
    ``OSError``.
    """
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    for tree, name in zip(mapped, host.mapped, strict=True):
        syscalls.move_mount(tree, name)
        os.close(tree)
    with _Descriptors() as outside:
        data = outside.add(os.open(host.data, contained.FOLDER))
        _mount_layers(order, host, data, outside)
        root = outside.add(os.open(host.root, contained.FOLDER))
        if order.host_base:
            _mount_trees(order, host, data, root, outside)
        volumes = [_open_volume(data, source) for source, _ in order.volumes]
        # Our /proc can be mounted only while the old one is still to be seen.
        _mount_kernel_views(root, syscalls.open_tree(host.dev, recursive=True), order)
        os.fchdir(root)
        syscalls.pivot_root(".", ".")
        syscalls.umount(".", syscalls.MNT_DETACH)
        os.chdir("/")
    # From here on nothing leads outside: not the root, not its parent, no descriptor.
    _set_up_proc(order)
    _standard_streams()
    _attach_volumes(volumes, [target for _, target in order.volumes])


class _Descriptors:
    """Closes what was opened outside before anything inside is walked by name."""

    def __init__(self) -> None:
        self._fds: list[int] = []

    def add(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def __enter__(self) -> _Descriptors:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)


def _mount_layers(order: Order, host: HostMounts, data: int, outside: _Descriptors) -> None:
    upper, work = _prepare_writable(data, order, outside)
    layers = _open_layers(order, host, data, outside)
    if order.host_base:
        for tree, _ in host.trees:
            if tree.writable:
                outside.add(contained.make_folder(upper, tree.path))
    _overlay(host.root, layers, upper, outside.add(contained.make_folder(work, "root")))


def _open_layers(order: Order, host: HostMounts, data: int, outside: _Descriptors) -> list[int]:
    paths = (*order.layers, *((host.stock,) if order.host_base else ()))
    return [outside.add(contained.open_folder(data, path)) for path in paths]


def _open_volume(data: int, source: str) -> int:
    folder = contained.open_folder(data, source)
    try:
        return syscalls.open_tree("", directory=folder)
    finally:
        os.close(folder)


def _prepare_writable(data: int, order: Order, outside: _Descriptors) -> tuple[int, int]:
    writable = outside.add(contained.open_folder(data, order.writable))
    upper = outside.add(contained.make_folder(writable, "upper"))
    os.chmod(contained.name_of(upper), 0o755)
    work = outside.add(contained.make_folder(writable, "work"))
    for name in os.listdir(contained.name_of(work)):
        # A former overlay was volatile: its work directory forbids a second mount.
        _remove_work(work, name)
    return upper, work


def _remove_work(parent: int, name: str) -> None:
    """Remove a former work directory; the kernel made its folders without any permission."""
    fd = os.open(name, contained.FOLDER, dir_fd=parent)
    os.chmod(contained.name_of(fd), 0o700)
    listing = os.open(contained.name_of(fd), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for entry in os.listdir(listing):
        if stat.S_ISDIR(os.lstat(entry, dir_fd=fd).st_mode):
            _remove_work(fd, entry)
        else:
            os.unlink(entry, dir_fd=fd)
    os.close(listing)
    os.close(fd)
    os.rmdir(name, dir_fd=parent)


def _mount_trees(
    order: Order, host: HostMounts, data: int, root: int, outside: _Descriptors
) -> None:
    layers = _open_layers(order, host, data, outside)
    writable = outside.add(contained.open_folder(data, order.writable))
    for index, (tree, source) in enumerate(host.trees):
        if tree.chosen and tree.path not in order.shown:
            continue
        target = outside.add(contained.make_folder(root, tree.path))
        host_tree = outside.add(os.open(source, contained.FOLDER))
        if not tree.writable:
            # The stock layer hides private files. An overlay also has separate inodes, so locks and
            # watches of other sandboxes and of the host are not visible.
            masks = f"{host.stock}{MASKS}/{tree.path.lstrip('/')}"
            above = (data, masks) if tree.chosen else (layers[-1], tree.path)
            stock = outside.add(contained.open_folder(*above))
            _overlay_read_only(contained.name_of(target), [stock, host_tree])
            continue
        lower = [
            outside.add(fd)
            for layer in layers
            if (fd := contained.find_folder(layer, tree.path)) is not None
        ]
        lower.append(host_tree)
        upper = outside.add(contained.open_folder(writable, f"upper/{tree.path}"))
        work = outside.add(contained.make_folder(writable, f"work/tree{index}"))
        _overlay(contained.name_of(target), lower, upper, work)


def _overlay(target: str, layers: list[int], upper: int, work: int) -> None:
    """Mount an overlay; by descriptors, so that no path of the host shows in /proc/mounts."""
    lower = ":".join(map(contained.name_of, layers))
    above = f"upperdir={contained.name_of(upper)},workdir={contained.name_of(work)}"
    options = f"lowerdir={lower},{above},userxattr,volatile"
    syscalls.mount("sandbox", target, "overlay", syscalls.MS_NODEV, options)
    if os.statvfs(target).f_flag & os.ST_RDONLY:
        raise OSError(30, "the overlay is read-only: the data directory's ids are not mapped")


def _overlay_read_only(target: str, layers: list[int]) -> None:
    lower = ":".join(map(contained.name_of, layers))
    flags = syscalls.MS_RDONLY | syscalls.MS_NODEV
    syscalls.mount("sandbox", target, "overlay", flags, f"lowerdir={lower},userxattr")


def _mount_kernel_views(root: int, dev: int, order: Order) -> None:
    os.close(contained.make_folder(root, "sys"))
    folder = contained.make_folder(root, "dev")
    syscalls.move_mount(dev, "", directory=folder)
    for fd in (dev, folder):
        os.close(fd)
    hardened = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    _mount_at(root, "proc", "proc", hardened)
    terminals = f"newinstance,ptmxmode=0666,mode=620,max={kernel_limits.MAX_TERMINALS}"
    if order.real_users:
        terminals += ",gid=5"
    _mount_at(root, "dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, terminals)
    shared = syscalls.MS_NOSUID | syscalls.MS_NODEV
    _mount_at(root, "dev/shm", "tmpfs", shared, f"mode=1777,{_SHM_SIZE}")


def _mount_at(root: int, path: str, kind: str, flags: int, options: str = "") -> None:
    folder = contained.make_folder(root, path)
    try:
        syscalls.mount(path.rpartition("/")[2], contained.name_of(folder), kind, flags, options)
    finally:
        os.close(folder)


def _set_up_proc(order: Order) -> None:
    """Number the boot, limit the process ids and hide parts of the sandbox's own ``/proc``."""
    if order.limit_processes and os.access(_PID_MAX, os.W_OK):
        # Of this pid namespace alone, since Linux 6.14; earlier kernels refuse the write.
        _write(_PID_MAX, str(max(1024, 2 * order.processes)))
    if "limits" not in order.without:
        kernel_limits.set_limits(order)
    _mask_proc(machine_root=order.machine_root)
    _number_boot()


def _number_boot() -> None:
    """Give the sandbox a boot id of its own, another one for each boot (interface G5)."""
    number = bytearray(os.urandom(16))
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    digits = number.hex()
    text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    source = "/dev/shm/.boot_id"  # only until it is mounted
    with open(source, "x") as file:
        file.write(f"{text}\n")
    syscalls.mount(source, _BOOT_ID, "", syscalls.MS_BIND)
    syscalls.mount("", _BOOT_ID, "", _REMOUNT_READ_ONLY | syscalls.MS_NOEXEC)
    os.unlink(source)


def _mask_proc(*, machine_root: bool) -> None:
    for name in (*_READ_ONLY_PROC, *(_READ_ONLY_PROC_OF_ROOT if machine_root else ())):
        path = f"/proc/{name}"
        if os.path.isdir(path):
            syscalls.mount(path, path, "", syscalls.MS_BIND | syscalls.MS_REC)
            syscalls.mount("", path, "", _REMOUNT_READ_ONLY | syscalls.MS_NOEXEC)
    for name in (*_MASKED_PROC, *(_MASKED_PROC_OF_ROOT if machine_root else ())):
        path = f"/proc/{name}"
        if os.path.isfile(path):
            syscalls.mount("/dev/null", path, "", syscalls.MS_BIND)
        elif os.path.isdir(path):
            syscalls.mount("none", path, "tmpfs", syscalls.MS_RDONLY, "size=4k,nr_inodes=2")


def _attach_volumes(trees: list[int], targets: list[str]) -> None:
    """Mount the volumes one after the other, since one may lie in another."""
    root = os.open("/", contained.FOLDER)
    for index, (tree, target) in enumerate(zip(trees, targets, strict=True)):
        try:
            folder = contained.make_folder(root, target)
        except contained.LinkInTheWayError as error:
            told = f"invalid mounts:\n- volume mount #{index}: path '{target}' {error.what}"
            raise contained.LinkInTheWayError(
                target, error.what, f"{told} in the sandbox"
            ) from None
        syscalls.move_mount(tree, "", directory=folder)
        for fd in (tree, folder):
            os.close(fd)
    os.close(root)


def _standard_streams() -> None:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
