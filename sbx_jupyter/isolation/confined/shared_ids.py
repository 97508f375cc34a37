"""A second filter, for programs whose id other programs of the machine have too.

Landlock does not keep them from the limits, the priority and the shared memory of those, from
watching directories, nor from the modes, times and attributes of files whose path they know or
which they may read. Some of that is denied here; the rest asks the keeper (``keeper``), who
does it for files of the sandbox alone.
"""

from __future__ import annotations

import errno
import functools
import os
from typing import Final

from sbx_jupyter.isolation.kernel import bpf, call_numbers, landlock, seccomp
from sbx_jupyter.isolation.loopback.rules import rules as loopback_rules

_OF_ALL_OF_ONE_ID: Final = (
    # What Landlock leaves open between processes of one id: memory by number, queues, watching.
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd",
    "msgrcv", "msgctl", "mq_open", "mq_unlink", "inotify_add_watch",
)  # fmt: skip

_ATTRIBUTES_BY_PATH: Final = (
    "setxattr", "lsetxattr", "getxattr", "lgetxattr", "listxattr", "llistxattr", "removexattr",
    "lremovexattr", "setxattrat", "getxattrat", "listxattrat", "removexattrat",
)  # fmt: skip

SUPERVISED: Final = (
    # Those by descriptor, too: a file that may only be read can be changed by its owner.
    "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat",
    "fsetxattr", "fremovexattr",
)  # fmt: skip
"""Calls that the keeper performs in place of the caller."""

_PRIORITY_OF_A_PROCESS: Final = 0
_IO_PRIORITY_OF_A_PROCESS: Final = 1
_USUAL_POLICY: Final = 0
_SELF: Final = (0,)
_OF_ITSELF: Final = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr")

_SET_LEASE: Final = 1024
"""A lease on a file that others may open makes them wait."""

_FAMILY: Final = 0xFF00
_OF_FILE_SYSTEMS: Final = (0x6600, 0x7600, 0x5800, 0x9400, 0xF500, 0x7200)
"""The families f, v and X of all file systems, and those of btrfs, F2FS and FAT: flags, project
ids, seals, subvolumes. They ask for the owner of a file, not for a descriptor that may write."""
_OF_NETWORKS: Final = (0x8900,)
"""The family of requests that tell the machine's interfaces and addresses, on any socket."""
_HARMLESS: Final = (
    0x80086601,  # FS_IOC_GETFLAGS
    0xC020660B,  # FS_IOC_FIEMAP
    0x80087601,  # FS_IOC_GETVERSION
    0x801C581F,  # FS_IOC_FSGETXATTR
    0x40049409,  # FICLONE: into a file that is open for writing
    0x4020940D,  # FICLONERANGE
    0xC0189436,  # FIDEDUPERANGE
    0x8905,  # SIOCATMARK
)

SENDING: Final = (
    "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "fcntl",
)  # fmt: skip
"""Calls that the keeper answers where Landlock allows signals; of ``fcntl`` only ``F_SETOWN``."""
_SET_OWNER: Final = 8
_SET_OWNER_BY_RECORD: Final = 15

BEFORE_TRUNCATION: Final = ("truncate",)
"""Calls that the keeper performs for the caller where Landlock does not control truncation."""
_ACCESS: Final = 0o3
_WRITING: Final = (os.O_WRONLY, os.O_RDWR)

_DENY: Final = bpf.ERRNO | errno.EPERM


def rules(
    *,
    hold_processors: bool = False,
    loopback: bool = False,
    abi: int = landlock.SCOPED_ABI,
) -> dict[str, bpf.Rule]:
    """The second filter's rule for each call; a call without a rule is let through.

    ``hold_processors`` says that the first filter already answers calls that choose processors,
    ``loopback`` that the keeper answers those about sockets. ``abi`` is the version of Landlock,
    which leaves more open when it is older.
    """
    found: dict[str, bpf.Rule] = {}
    found |= dict.fromkeys(_OF_ALL_OF_ONE_ID, bpf.answer(_DENY))
    found |= dict.fromkeys(_ATTRIBUTES_BY_PATH, bpf.answer(bpf.ERRNO | errno.ENOTSUP))
    found |= dict.fromkeys(SUPERVISED, bpf.answer(bpf.NOTIFY))
    found |= dict.fromkeys(_OF_ITSELF, bpf.only_in(0, _SELF, _DENY))
    # Threads name themselves by number. libzmq, and so every kernel, aborts when one cannot be
    # given the policy that it has, so that succeeds, without effect.
    other = bpf.by_value(1, {_USUAL_POLICY: bpf.answer(bpf.ERRNO)}, bpf.answer(_DENY))
    found["sched_setscheduler"] = bpf.by_value(0, {_SELF[0]: bpf.ALLOW}, other)
    if not hold_processors:
        found["sched_setaffinity"] = bpf.only_in(0, _SELF, _DENY)
    of_itself = bpf.only_in(1, _SELF, _DENY)
    found["setpriority"] = bpf.only_in(0, (_PRIORITY_OF_A_PROCESS,), _DENY, then=of_itself)
    found["ioprio_set"] = bpf.only_in(0, (_IO_PRIORITY_OF_A_PROCESS,), _DENY, then=of_itself)
    found["fcntl"] = bpf.unless_in(1, (_SET_LEASE,), _DENY)
    found["ioctl"] = bpf.unless_masked(
        1, _FAMILY, (*_OF_FILE_SYSTEMS, *_OF_NETWORKS), _HARMLESS, bpf.ERRNO | errno.ENOTTY
    )
    if loopback:
        found |= loopback_rules()
    if abi < landlock.SCOPED_ABI:
        found |= _rules_about_signals()
    if abi < landlock.TRUNCATE_ABI:
        found |= _rules_about_truncation()
    return found


def _rules_about_signals() -> dict[str, bpf.Rule]:
    ask = bpf.answer(bpf.NOTIFY)
    of_files: dict[int, bpf.Rule] = {
        _SET_LEASE: bpf.answer(_DENY),
        _SET_OWNER: ask,
        _SET_OWNER_BY_RECORD: bpf.answer(_DENY),  # its record could be changed meanwhile
    }
    return dict.fromkeys(SENDING, ask) | {"fcntl": bpf.by_value(1, of_files)}


def _rules_about_truncation() -> dict[str, bpf.Rule]:
    """Rules against emptying a read-only file by opening it, which works before version 3."""
    refused = [os.O_TRUNC | access for access in range(_ACCESS + 1) if access not in _WRITING]
    mask, code = os.O_TRUNC | _ACCESS, bpf.ERRNO | errno.EACCES
    found: dict[str, bpf.Rule] = {}
    found |= dict.fromkeys(BEFORE_TRUNCATION, bpf.answer(bpf.NOTIFY))
    found["open"] = bpf.unless_masked(1, mask, refused, (), code)
    found["openat"] = bpf.unless_masked(2, mask, refused, (), code)
    found["openat2"] = bpf.answer(bpf.ERRNO | errno.ENOSYS)  # its flags are in memory
    return found


@functools.cache
def build(
    *,
    hold_processors: bool = False,
    loopback: bool = False,
    abi: int = landlock.SCOPED_ABI,
    machine: str = call_numbers.HERE,
) -> bytes:
    """The filter program with these ``rules``; it needs a listener."""
    numbers = call_numbers.NUMBERS[machine]
    found = rules(hold_processors=hold_processors, loopback=loopback, abi=abi)
    here = {numbers[name]: rule for name, rule in found.items() if name in numbers}
    return bpf.program(seccomp.ARCHITECTURES[machine], here, bpf.ALLOW)
