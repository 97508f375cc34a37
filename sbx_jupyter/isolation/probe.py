"""Tests the kernel features that a fence needs, in a separate process that ends afterwards.

Run it with ``python -I -S`` and the data directory; it prints a JSON object with ``true`` or an
error text for each feature. Uses the standard library only, like the zygote, whose calls it makes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent import system
from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.ids.blocks import Blocks, IdRange, NoBlockLeftError
from sbx_jupyter.isolation.ids.local_ids import LocalIds
from sbx_jupyter.isolation.kernel import (
    landlock,
    notifications,
    seccomp,
    subvolumes,
    syscalls,
    tap,
    users,
)
from sbx_jupyter.isolation.loopback import calls
from sbx_jupyter.isolation.zygote import host_mounts, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

_FICLONE: Final = 0x40049409
_QUOTA: Final = 1 << 20

Found = dict[str, Any]


def main(data_dir: str, trees: str, host_ids: str) -> None:
    """Probe and print. ``trees`` are paths between colons, ``host_ids`` an ``IdRange``."""
    found: Found = {"landlock_abi": landlock.abi(), "uid": os.getuid()}
    with tempfile.TemporaryDirectory(dir=data_dir, prefix="probe-") as work:
        _try(found, "reflink", lambda: _reflink(Path(work)))
        _try(found, "disk_quota", lambda: _quota(Path(work) / "limited"))
        found["btrfs"] = subvolumes.is_subvolume(Path(work) / "limited")
        for name in ("lower", "upper", "work", "root"):
            os.mkdir(os.path.join(work, name))
        if os.getuid() == 0:
            _probe_root(found, work, trees.split(":"), IdRange.parse(host_ids))
        else:
            _try(found, "supervision", _supervise)
            _try(found, "loopback", _take_socket)
            _probe_user(found, work)
        # The work directory of an overlay is closed even to its owner.
        subprocess.run(["chmod", "-R", "u+rwX", work], check=False, stderr=subprocess.DEVNULL)
    print(json.dumps(found))


def _probe_root(found: Found, work: str, trees: list[str], ids: IdRange) -> None:
    shared = users.shared_base()
    _try(found, "own_ids", lambda: _take_block(found, ids))
    if shared is None and "block" not in found:
        found["id_base"] = None
        found["user_namespace"] = "this container has fewer than 65536 ids"
        return
    _try(found, "mount_namespace", lambda: _leave(syscalls.CLONE_NEWNS))
    base = found.pop("block", None) or shared or 0
    if base:
        _try(found, "idmapped", lambda: _try_mapped(found, work, trees, base))
    if base and found["idmapped"] is not True:
        base = 0
        found["own_ids"] = found["idmapped"]
    if not base:
        extent = f"0 0 {users.RANGE}"
        _in_sandbox(found, work, extent, extent)
    found["id_base"] = base


def _take_block(found: Found, ids: IdRange) -> None:
    """Take a block of ids until this process ends."""
    try:
        found["block"] = Blocks(ids, LocalIds()).take().base
    except NoBlockLeftError:
        # Sandboxes get blocks that become free, or are refused; they never share one.
        found["block"] = next(iter(ids.blocks())) * users.RANGE


def _try_mapped(found: Found, work: str, trees: list[str], base: int) -> None:
    """Try the mounts of a sandbox with its ids. Raises ``OSError`` where files cannot have them."""
    _idmap([work, *trees], base)
    owner = host_mounts.namespace_of_ids(base)
    source = os.path.join(work, "root")
    _attach(work, source, owner)
    extent = f"0 {base} {users.RANGE}"
    _in_sandbox(found, source, extent, extent)
    os.chdir("/")
    syscalls.umount(source)
    if found.get("user_namespace") is True and found.get("overlay") is not True:
        raise OSError(errno.EINVAL, f"an overlay of such files: {found['overlay']}")


def _probe_user(found: Found, work: str) -> None:
    uid, gid = os.getuid(), os.getgid()
    _try(found, "subordinate", _map_subordinate)
    _try(found, "user_namespace", lambda: _become_own(uid, gid))
    if found["user_namespace"] is not True:
        return
    _in_sandbox(found, work, f"0 {uid} 1", f"0 {gid} 1")


def _become_own(uid: int, gid: int) -> None:
    """Enter namespaces with this id. Some machines let them be made and refuse every step after."""
    _leave(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    users.write_maps(os.getpid(), f"{uid} {uid} 1", f"{gid} {gid} 1")


def _take_socket() -> None:
    """Copy a socket of a child, by the number of a thread, as a keeper does."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            theirs.recv(1)
            os._exit(0)
        try:
            pidfd = calls.open_thread(pid)
            os.close(syscalls.call("pidfd_getfd", pidfd, theirs.fileno(), 0))
            os.close(pidfd)
        finally:
            ours.send(b"1")
            os.waitpid(pid, 0)


def _supervise() -> None:
    """A filter with a listener in a child, whose memory is then read: as a keeper does."""
    outcome, report = os.pipe2(os.O_CLOEXEC)
    looked, mark = os.pipe2(os.O_CLOEXEC)
    text = ctypes.create_string_buffer(b"probe")
    pid = os.fork()
    if pid == 0:
        os.close(mark)
        try:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            system.install_filter(shared_ids.build())
            os.write(report, b"ok")
        except OSError as error:
            os.write(report, str(error).encode())
        os.read(looked, 1)
        os._exit(0)
    try:
        if (said := os.read(outcome, 500)) != b"ok":
            raise OSError(said.decode())
        notifications.read_memory(pid, ctypes.addressof(text), 1)
    finally:
        for fd in (outcome, report, looked, mark):
            os.close(fd)
        os.waitpid(pid, 0)


def _in_sandbox(found: Found, source: str, uid_map: str, gid_map: str) -> None:
    """Try the mounts of a sandbox in a child with all of its namespaces."""
    answer, report = os.pipe2(os.O_CLOEXEC)
    mapped, release = os.pipe2(os.O_CLOEXEC)
    os.chdir(source)
    try:
        pid, pidfd = syscalls.fork_into(namespaces.NAMESPACES)
    except OSError as error:
        found["user_namespace"] = str(error)
        return
    if pid == 0:
        os.read(mapped, 1)
        network: Found = {}
        _try(network, "tap", tap.make)  # first: the device may be open to the present id alone
        os.write(report, json.dumps({**network, **_mounts()}).encode())
        os._exit(0)
    try:
        users.write_maps(pid, uid_map, gid_map)
    except OSError as error:
        found["user_namespace"] = str(error)
    _try(found, "descriptors", lambda: os.close(syscalls.call("pidfd_getfd", pidfd, 0, 0)))
    os.write(release, b"1")
    os.close(report)
    os.waitpid(pid, 0)
    os.close(pidfd)
    found.update(json.loads(os.read(answer, 65536) or b"{}"))


def _mounts() -> Found:
    found: Found = {"user_namespace": True}
    hardened = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    overlay = "lowerdir=lower,upperdir=upper,workdir=work,userxattr,volatile"
    _try(found, "ids", lambda: (os.setresgid(0, 0, 0), os.setresuid(0, 0, 0)))
    _try(found, "private", lambda: syscalls.mount("", "/", "", _PRIVATE))
    _try(found, "overlay", lambda: _overlay(overlay))
    _try(found, "tmpfs", lambda: syscalls.mount("t", "lower", "tmpfs", hardened))
    _try(found, "proc", lambda: syscalls.mount("proc", "upper", "proc", hardened))
    _try(found, "devpts", lambda: syscalls.mount("d", "work", "devpts", 0, "newinstance"))
    _try(found, "seccomp", lambda: seccomp.install(seccomp.build()))
    return found


_PRIVATE: Final = syscalls.MS_REC | syscalls.MS_PRIVATE


def _overlay(options: str) -> None:
    syscalls.mount("probe", "root", "overlay", syscalls.MS_NODEV, options)
    probe = Path("root/file")
    probe.touch()
    os.setxattr(probe, "user.e2b.probe", b"1")


def _leave(flags: int) -> None:
    syscalls.unshare(flags)
    syscalls.mount("", "/", "", _PRIVATE)


def _idmap(paths: list[str], base: int) -> None:
    owner = host_mounts.namespace_of_ids(base)
    for path in paths:
        tree = syscalls.open_tree(path)
        try:
            syscalls.mount_setattr(tree, attributes=syscalls.MOUNT_ATTR_IDMAP, user_namespace=owner)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
        os.close(tree)
    os.close(owner)


def _attach(source: str, target: str, owner: int) -> None:
    tree = syscalls.open_tree(source)
    syscalls.mount_setattr(tree, attributes=syscalls.MOUNT_ATTR_IDMAP, user_namespace=owner)
    syscalls.move_mount(tree, target)
    os.close(tree)
    os.close(owner)


def _map_subordinate() -> None:
    if not users.can_use_subordinate():
        raise OSError("no newuidmap, or no range of 65535 ids in /etc/subuid and /etc/subgid")
    mapped, release = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = syscalls.fork_into(syscalls.CLONE_NEWUSER)
    if pid == 0:
        os.close(release)
        os.read(mapped, 1)
        os._exit(0)
    try:
        users.map_subordinate(pid)
    except subprocess.SubprocessError as error:
        raise OSError(f"newuidmap failed: {error}") from error
    finally:
        os.close(release)
        os.waitpid(pid, 0)
        for fd in (mapped, pidfd):
            os.close(fd)


def _reflink(work: Path) -> None:
    with open(work / "a", "w+b") as source, open(work / "b", "wb") as target:
        source.write(b"x" * 4096)
        source.flush()
        fcntl.ioctl(target, _FICLONE, source.fileno())


def _quota(path: Path) -> None:
    """Write more than fits into a subvolume that is limited, which must fail."""
    subvolumes.make_folder(path, _QUOTA)
    if subvolumes.read_quota(path) is None:
        raise OSError(errno.ENOTSUP, "quotas are off or not there")
    try:
        (path / "large").write_bytes(bytes(2 * _QUOTA))
    except OSError as error:
        if error.errno != errno.EDQUOT:
            raise
    else:
        raise OSError(errno.ENOTSUP, "quotas are not kept")


def _try(found: Found, name: str, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except OSError as error:
        found[name] = str(error)
    else:
        found[name] = True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
