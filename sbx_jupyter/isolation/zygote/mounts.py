"""The root file system that a sandbox sees, mounted from the inside before any of its code.

Content of layers may be hostile: below them no symbolic link is followed until the process has
pivoted into the new root.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from sbx_jupyter.isolation.root.rootfs import HostTree
    from sbx_jupyter.isolation.zygote.namespaces import Order, Places

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
_PATH_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def mount_root(order: Order, places: Places) -> None:
    """Mount the layers of a sandbox and what the kernel shows, and make it this process's root.

    Raises ``OSError``.
    """
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    data = os.open(places.data, _PATH_FLAGS)
    writable = _open_beneath(data, order.writable)
    upper, work = _prepare_writable(writable)
    layers = [_open_beneath(data, layer) for layer in order.layers]
    if order.host_base:
        layers.append(_open_beneath(data, places.stock))
        for tree, _ in places.trees:
            if tree.writable:
                _make_beneath(upper, tree.path)
    _overlay(places.root, layers, upper, _make_beneath(work, "root"))
    root = os.open(places.root, _PATH_FLAGS)
    if order.host_base:
        for index, (tree, source) in enumerate(places.trees):
            _mount_tree(tree, source, root, layers, upper, work, index)
    dev = syscalls.open_tree(places.dev, recursive=True)
    volumes = [
        (syscalls.open_tree(source, directory=data), target) for source, target in order.volumes
    ]
    os.fchdir(root)
    syscalls.pivot_root(".", ".")
    # "/" is the new root from here on; the old one lies over it until the umount below, and its
    # /proc must still be seen when ours is mounted.
    _mount_kernel_views(dev, order)
    for source, target in volumes:
        _attach_volume(source, target)
    syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")
    _standard_streams()


def _prepare_writable(writable: int) -> tuple[int, int]:
    upper = _make_beneath(writable, "upper")
    os.chmod(_self(upper), 0o755)
    work = _make_beneath(writable, "work")
    for name in os.listdir(_self(work)):
        # A former overlay was volatile: its work directory forbids a second mount.
        _remove_work(work, name)
    return upper, work


def _remove_work(parent: int, name: str) -> None:
    """Remove a former work directory; the kernel made its folders without any permission."""
    fd = os.open(name, _PATH_FLAGS, dir_fd=parent)
    os.chmod(_self(fd), 0o700)
    listing = os.open(_self(fd), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for entry in os.listdir(listing):
        if stat.S_ISDIR(os.lstat(entry, dir_fd=fd).st_mode):
            _remove_work(fd, entry)
        else:
            os.unlink(entry, dir_fd=fd)
    os.close(listing)
    os.close(fd)
    os.rmdir(name, dir_fd=parent)


def _mount_tree(
    tree: HostTree, source: str, root: int, layers: list[int], upper: int, work: int, index: int
) -> None:
    target = _open_beneath(root, tree.path)
    if not tree.writable:
        clone = syscalls.open_tree(source, recursive=True)
        syscalls.move_mount(clone, "", directory=target)
        return
    lower = [fd for layer in layers if (fd := _find_beneath(layer, tree.path)) is not None]
    lower.append(os.open(source, _PATH_FLAGS))
    work_of_tree = _make_beneath(work, f"tree{index}")
    _overlay(_self(target), lower, _open_beneath(upper, tree.path), work_of_tree)


def _overlay(target: str, layers: list[int], upper: int, work: int) -> None:
    """Mount an overlay; by descriptors, so that no path of the host shows in /proc/mounts."""
    lower = ":".join(_self(fd) for fd in layers)
    options = f"lowerdir={lower},upperdir={_self(upper)},workdir={_self(work)},userxattr,volatile"
    syscalls.mount("sandbox", target, "overlay", syscalls.MS_NODEV, options)
    if os.statvfs(target).f_flag & os.ST_RDONLY:
        raise OSError(30, "the overlay is read-only: the data directory's ids are not mapped")


def _mount_kernel_views(dev: int, order: Order) -> None:
    for name in ("dev", "proc", "sys"):
        _own_directory(f"/{name}")
    syscalls.move_mount(dev, "/dev")
    hardened = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("proc", "/proc", "proc", hardened)
    terminals = "newinstance,ptmxmode=0666,mode=620" + (",gid=5" if order.real_users else "")
    syscalls.mount(
        "devpts", "/dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, terminals
    )
    syscalls.mount(
        "shm", "/dev/shm", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV,
        f"mode=1777,{_SHM_SIZE}",
    )  # fmt: skip
    if order.limit_processes and os.access(_PID_MAX, os.W_OK):
        # Of this pid namespace alone, since Linux 6.14; earlier kernels refuse the write.
        _write(_PID_MAX, str(max(1024, 2 * order.processes)))
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


def _attach_volume(tree: int, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    syscalls.move_mount(tree, target)
    os.close(tree)


def _own_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise OSError(20, f"{path} of the template is not a directory") from None


def _standard_streams() -> None:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _self(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _open_beneath(directory: int, path: str) -> int:
    """A directory below ``directory``, reached without any symbolic link."""
    resolve = syscalls.RESOLVE_NO_SYMLINKS | syscalls.RESOLVE_BENEATH
    return syscalls.openat2(directory, "/".join(_parts(path)), os.O_PATH | os.O_DIRECTORY, resolve)


def _find_beneath(directory: int, path: str) -> int | None:
    try:
        return _open_beneath(directory, path)
    except OSError:
        return None  # this layer does not touch that tree


def _make_beneath(directory: int, path: str) -> int:
    """Like ``_open_beneath``, making what is missing."""
    current = os.dup(directory)
    for part in _parts(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=current)
        deeper = os.open(part, _PATH_FLAGS, dir_fd=current)
        os.close(current)
        current = deeper
    return current


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
