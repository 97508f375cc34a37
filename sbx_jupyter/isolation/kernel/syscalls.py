"""The Linux system calls that Python does not offer, by number."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from typing import Final

from sbx_jupyter.isolation.kernel import call_numbers

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
_CLONE_PIDFD: Final = 0x00001000
_CLONE_INTO_CGROUP: Final = 0x200000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

MOUNT_ATTR_RDONLY: Final = 0x1
MOUNT_ATTR_NOSUID: Final = 0x2
MOUNT_ATTR_NODEV: Final = 0x4
MOUNT_ATTR_IDMAP: Final = 0x100000

AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RESOLVE_IN_ROOT: Final = 0x10

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
_PR_SET_NAME: Final = 15
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
# PyDLL keeps the GIL, so no thread switch comes between the fork hooks and the fork.
_syscall_with_gil = ctypes.PyDLL(None, use_errno=True).syscall
_syscall_with_gil.restype = ctypes.c_long

Argument = int | bytes | None


def number(name: str) -> int:
    """The number of a system call on this machine."""
    return call_numbers.NUMBERS[call_numbers.HERE][name]


def call(name: str, *arguments: Argument) -> int:
    """Make a system call; raises ``OSError`` that names it."""
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = _syscall(ctypes.c_long(number(name)), *values)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2); an empty ``kind`` or ``options`` is passed as NULL. Raises ``OSError``."""
    call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) if kind else None,
        flags,
        os.fsencode(options) if options else None,
    )


def umount(target: str, flags: int = MNT_DETACH) -> None:
    """umount2(2). Raises ``OSError``."""
    call("umount2", os.fsencode(target), flags)


def unshare(flags: int) -> None:
    """unshare(2). Raises ``OSError``."""
    call("unshare", flags)


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2). Raises ``OSError``."""
    call("pivot_root", os.fsencode(new), os.fsencode(old))


def prctl(option: int, value: int = 0) -> int:
    """prctl(2) with one value. Raises ``OSError``."""
    return call("prctl", option, value, 0, 0, 0)


def name_process(name: str) -> None:
    """Set the name that process lists show, of at most 15 bytes. Raises ``OSError``."""
    call("prctl", _PR_SET_NAME, name.encode(), 0, 0, 0)


def sethostname(name: str) -> None:
    """sethostname(2). Raises ``OSError``."""
    raw = name.encode()
    call("sethostname", raw, len(raw))


def open_tree(path: str, *, directory: int = AT_FDCWD, recursive: bool = False) -> int:
    """A detached copy of the mount at ``path``, as a descriptor. Raises ``OSError``."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    if not path:
        flags |= AT_EMPTY_PATH
    return call("open_tree", directory, os.fsencode(path), flags)


def move_mount(tree: int, path: str, *, directory: int = AT_FDCWD) -> None:
    """Attach a detached mount at ``path``, or at ``directory`` itself if that is empty.

    Raises ``OSError``.
    """
    flags = _MOVE_MOUNT_F_EMPTY_PATH | (0 if path else 0x40)
    call("move_mount", tree, b"", directory, os.fsencode(path), flags)


def mount_setattr(
    tree: int, *, attributes: int, user_namespace: int = 0, recursive: bool = False
) -> None:
    """Set attributes of a detached mount. Raises ``OSError``."""
    record = struct.pack("QQQQ", attributes, 0, 0, user_namespace)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    call("mount_setattr", tree, b"", flags, record, len(record))


def openat2(directory: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """openat2(2), always close-on-exec. Raises ``OSError``."""
    record = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    return call("openat2", directory, os.fsencode(path), record, len(record))


def close_range(first: int, last: int) -> None:
    """Close every descriptor from ``first`` to ``last``. Raises ``OSError``."""
    if first <= last:
        call("close_range", first, last, 0)


def fork_into(flags: int, cgroup: int | None = None) -> tuple[int, int]:
    """fork(2) into new namespaces: (0, -1) in the child, (pid, pidfd) in the parent.

    Uses clone3, or clone where a filter hides clone3. Raises ``OSError``.
    """
    pidfd = ctypes.c_int(-1)
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    result = _clone3(flags, cgroup, pidfd)
    if result < 0 and ctypes.get_errno() == errno.ENOSYS and cgroup is None:
        result = _clone(flags, pidfd)
    if result == 0:
        python.PyOS_AfterFork_Child()
        return 0, -1
    code = ctypes.get_errno()
    python.PyOS_AfterFork_Parent()
    if result < 0:
        raise OSError(code, f"clone3: {os.strerror(code)}")
    return result, pidfd.value


def _clone3(flags: int, cgroup: int | None, pidfd: ctypes.c_int) -> int:
    flags |= _CLONE_PIDFD | (_CLONE_INTO_CGROUP if cgroup is not None else 0)
    address = ctypes.addressof(pidfd)
    record = struct.pack(
        "11Q", flags, address, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, cgroup if cgroup else 0
    )
    return _syscall_with_gil(ctypes.c_long(number("clone3")), record, ctypes.c_long(len(record)))


def _clone(flags: int, pidfd: ctypes.c_int) -> int:
    return _syscall_with_gil(
        ctypes.c_long(number("clone")),
        ctypes.c_long(flags | _CLONE_PIDFD | signal.SIGCHLD),
        None,
        ctypes.byref(pidfd),
        None,
        None,
    )
