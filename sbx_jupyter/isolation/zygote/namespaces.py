"""Sets up a sandbox's first process between clone and the agent: mounts, limits, privileges.

Everything here runs in the child, as id 0 of the sandbox's user namespace, single-threaded, and
before any code of the sandbox.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import contained, seccomp, syscalls
from sbx_jupyter.isolation.zygote import host_names, mounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.zygote.host_mounts import HostMounts
    from sbx_jupyter.isolation.zygote.order import Order

NAMESPACES: Final = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWCGROUP
    | syscalls.CLONE_NEWNET
)

_KEPT_CAPABILITIES: Final = (
    0,  # CHOWN
    1,  # DAC_OVERRIDE
    3,  # FOWNER
    4,  # FSETID
    5,  # KILL
    6,  # SETGID
    7,  # SETUID
    8,  # SETPCAP
    10,  # NET_BIND_SERVICE
    18,  # SYS_CHROOT
    29,  # AUDIT_WRITE, for sudo
    31,  # SETFCAP, for installing packages
)
_LAST_CAPABILITY: Final = 40
_CAPABILITY_VERSION: Final = 0x20080522

_USUAL_OPEN_FILES: Final = 1024
"""The limit of open files that programs of a machine usually have."""

_NO_CORE_DUMPS: Final = 1
"""With 0, the kernel would still give core dumps to a program of the machine, where it is told to
start one, such as systemd-coredump or apport: as the machine's root, and onto its disk."""

_NICE: Final = 5
"""For sandboxes whose processor time is not shared out, so that the engine comes first."""


REFUSED: Final = "refused: "
"""Begins the message of a set-up that failed for what the sandbox was to be made of."""


class SetupError(Exception):
    """The sandbox could not be set up; the message says which step failed."""


def prepare(*, virtual_users: bool) -> None:
    """Do, in the zygote, what would be the same work in each sandbox."""
    for hold_processors in (False, True):
        seccomp.build(virtual_users=virtual_users, hold_processors=hold_processors)


def enter(order: Order, host: HostMounts, mapped: Sequence[int] = ()) -> None:
    """Turn this freshly cloned process into the inside of a sandbox, up to the agent.

    ``mapped`` are the mounts that ``host_mounts.map_to`` gave; they are closed. Raises
    ``SetupError``.
    """
    os.umask(0o022)
    steps = (
        ("the root file system", lambda: mounts.mount_root(order, host, mapped)),
        ("the network", _loopback_up),
        ("the host name", lambda: _name_host(order.sandbox_id)),
        ("the limits", lambda: None if "limits" in order.without else limit(order)),
        ("the privileges", lambda: _drop_privileges(order)),
    )
    for what, step in steps:
        try:
            step()
        except contained.LinkInTheWayError as error:
            raise SetupError(f"{REFUSED}{error.told}") from error
        except OSError as error:
            raise SetupError(f"{what}: {error}") from error


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # UP, RUNNING


def _name_host(name: str) -> None:
    syscalls.sethostname(name[:64])
    try:
        # One name below the root, and through no link: what a template made of it is left alone.
        etc = os.open("/etc", contained.FOLDER)
    except OSError:
        return
    try:
        host_names.write_names(etc, name)
    finally:
        os.close(etc)


def limit(order: Order) -> None:
    """Set the resource limits of this process. Raises ``OSError``."""
    if order.processors:
        os.sched_setaffinity(0, order.processors)
        os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (_NO_CORE_DUMPS, _NO_CORE_DUMPS))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if order.limit_processes and order.processes > 0:
        _lower(resource.RLIMIT_NPROC, order.processes)
    if order.limit_memory and order.memory_mb > 0:
        _lower(resource.RLIMIT_DATA, order.memory_mb << 20)
    if order.disk_mb > 0:
        _lower(resource.RLIMIT_FSIZE, order.disk_mb << 20)


def open_files_of_programs(order: Order, *, own_ids: bool) -> int:
    """How many files a program may have open; never more than half of what this process may.

    The kernel counts descriptors in flight per user and compares them with the sender's limit: what
    programs leave in sockets must not keep the agent from passing descriptors. Without ``own_ids``
    they share the count with the user's programs, which may have a much lower limit.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2
    if not own_ids:
        most = min(most, _USUAL_OPEN_FILES // 2)
    return min(order.open_files, most)


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def filter_of(order: Order) -> bytes:
    """The filter of system calls of a sandbox; ``prepare`` has built it."""
    virtual, held = not order.real_users, bool(order.processors)
    return seccomp.build(virtual_users=virtual, hold_processors=held)


def _drop_privileges(order: Order) -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in _KEPT_CAPABILITIES:
            try:
                syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno != 22:  # a capability that this kernel does not have
                    raise
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    if not order.real_users:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    if "seccomp" not in order.without:
        seccomp.install(filter_of(order))
    mask = sum(1 << capability for capability in _KEPT_CAPABILITIES)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    syscalls.call("capset", header, struct.pack("6I", low, low, 0, high, high, 0))
