"""A second filter, for programs whose id other programs of the machine have too.

Landlock does not keep them from the limits, the priority and the shared memory of those, from
watching directories, nor from the modes, times and attributes of files whose path they know or
which they may read. Some of that is denied here; the rest asks the keeper (``keeper``), who
does it for files of the sandbox alone.
"""

from __future__ import annotations

import errno
from typing import Final

from sbx_jupyter.isolation.kernel import bpf

_OF_ALL_OF_ONE_ID: Final[dict[str, bpf.Numbers]] = {
    # What Landlock leaves open between processes of one id: memory by number, queues, watching.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "inotify_add_watch": (254, 27),
}

_ATTRIBUTES_BY_PATH: Final[dict[str, bpf.Numbers]] = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "setxattrat": (463, 463),
    "getxattrat": (464, 464),
    "listxattrat": (465, 465),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}

SUPERVISED: Final[dict[str, bpf.Numbers]] = {
    # Those by descriptor, too: a file that may only be read can be changed by its owner.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "fsetxattr": (190, 7),
    "fremovexattr": (199, 16),
}
"""What the keeper does in place of the caller."""

_SET_AFFINITY: Final = (203, 122)
_OWN_PROCESS_ONLY: Final = (
    # (number, argument, the only value that is let through)
    ((302, 261), 0, 0),  # prlimit64
    ((144, 119), 0, 0),  # sched_setscheduler
    ((142, 118), 0, 0),  # sched_setparam
    ((314, 274), 0, 0),  # sched_setattr
    ((141, 140), 0, 0),  # setpriority: of a process ...
    ((141, 140), 1, 0),  # ... which is the caller
    ((251, 30), 0, 1),  # ioprio_set: of a process ...
    ((251, 30), 1, 0),  # ... which is the caller
)

_FCNTL: Final = (72, 25)
_SET_LEASE: Final = 1024
"""A lease on a file that others may open makes them wait."""

_IOCTL: Final = (16, 29)
_FAMILY: Final = 0xFF00
_OF_FILE_SYSTEMS: Final = (0x6600, 0x7600, 0x5800, 0x9400, 0xF500, 0x7200)
"""The families f, v and X of all file systems, and those of btrfs, F2FS and FAT: flags, project
ids, seals, subvolumes. They ask for the owner of a file, not for a descriptor that may write."""
_HARMLESS: Final = (
    0x80086601,  # FS_IOC_GETFLAGS
    0xC020660B,  # FS_IOC_FIEMAP
    0x80087601,  # FS_IOC_GETVERSION
    0x801C581F,  # FS_IOC_FSGETXATTR
    0x40049409,  # FICLONE: into a file that is open for writing
    0x4020940D,  # FICLONERANGE
    0xC0189436,  # FIDEDUPERANGE
)

_DENY: Final = bpf.ERRNO | errno.EPERM


def build(*, hold_processors: bool = False) -> bytes:
    """The filter program; it needs a listener.

    ``hold_processors`` says that the first filter already answers calls that choose processors.
    """
    code = [bpf.load_number()]
    for numbers, argument, allowed in _OWN_PROCESS_ONLY:
        code += bpf.when_not_equal(bpf.here(numbers), argument, allowed, _DENY)
    if not hold_processors:
        code += bpf.when_not_equal(bpf.here(_SET_AFFINITY), 0, 0, _DENY)
    code += bpf.when_equal(bpf.here(_FCNTL), 1, _SET_LEASE, _DENY)
    code += bpf.when_masked(
        bpf.here(_IOCTL), 1, _FAMILY, _OF_FILE_SYSTEMS, _HARMLESS, bpf.ERRNO | errno.ENOTTY
    )
    code += bpf.when_in(bpf.all_here(_OF_ALL_OF_ONE_ID), _DENY)
    code += bpf.when_in(bpf.all_here(_ATTRIBUTES_BY_PATH), bpf.ERRNO | errno.ENOTSUP)
    code += bpf.when_in(bpf.all_here(SUPERVISED), bpf.NOTIFY)
    code.append(bpf.op(bpf.RETURN, bpf.ALLOW))
    return b"".join(code)
