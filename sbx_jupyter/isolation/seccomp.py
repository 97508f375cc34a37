"""The system call filter of a sandbox, as raw BPF: no libseccomp is needed.

Everything is allowed except what reaches past the sandbox or only widens the attack surface of the
kernel: mounts and new namespaces, keyrings, BPF, io_uring, handles, modules, clocks, foreign
architectures. Programs such as sudo, git, compilers and debuggers go on working.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import Final

from . import syscalls

_DENIED: Final = {
    # name: (x86-64, AArch64); None where the machine does not have it
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "fanotify_init": (300, 262),
    "lsm_set_self_attr": (460, 460),
}

_PRETEND: Final = {
    # Success without effect, for ids that all are one: useradd, su, dpkg and tar go through.
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setgroups": (116, 159),
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setregid": (114, 143),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setfsuid": (122, 151),
    "setfsgid": (123, 152),
}

_OF_ALL_OF_ONE_ID: Final[dict[str, tuple[int | None, int | None]]] = {
    # What Landlock leaves open between processes of one id: memory by number, queues, watching.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "inotify_add_watch": (254, 27),
}

_ATTRIBUTES_BY_PATH: Final[dict[str, tuple[int | None, int | None]]] = {
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
}

_OWN_PROCESS_ONLY: Final = (
    # (number, argument, the only value that is let through)
    ((302, 261), 0, 0),  # prlimit64
    ((203, 122), 0, 0),  # sched_setaffinity
    ((144, 119), 0, 0),  # sched_setscheduler
    ((142, 118), 0, 0),  # sched_setparam
    ((314, 274), 0, 0),  # sched_setattr
    ((141, 140), 0, 0),  # setpriority: of a process ...
    ((141, 140), 1, 0),  # ... which is the caller
    ((251, 30), 0, 1),  # ioprio_set: of a process ...
    ((251, 30), 1, 0),  # ... which is the caller
)

_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_IOCTL: Final = (16, 29)

_NEW_NAMESPACES: Final = 0x7E020000  # every CLONE_NEW* flag that clone(2) knows
_AUDIT_ARCH: Final = 0xC000003E if syscalls.X86_64 else 0xC00000B7
_X32_BIT: Final = 0x40000000
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000

_LOAD: Final = 0x20
_JUMP: Final = 0x05
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER_EQUAL: Final = 0x35
_JUMP_SET: Final = 0x45
_RETURN: Final = 0x06

_SET_MODE_FILTER: Final = 1
_DENY: Final = _ERRNO | errno.EPERM
_ABSENT: Final = _ERRNO | errno.ENOSYS


def build(*, virtual_users: bool = False, deny_sockets: bool = False) -> bytes:
    """The filter program.

    ``virtual_users`` lets changes of owner and id succeed without effect. ``deny_sockets``
    is for sandboxes without a network namespace: only socketpair works there.
    """
    code = [
        _op(_LOAD, 4),  # the architecture
        _op(_JUMP_EQUAL, _AUDIT_ARCH, 1, 0),
        _op(_RETURN, _KILL_PROCESS),
        _op(_LOAD, 0),  # the number
    ]
    if syscalls.X86_64:
        code += [_op(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _op(_RETURN, _ABSENT)]
    code += _when_flags(_here(_CLONE), 0, _NEW_NAMESPACES, _DENY)
    for request in (_TIOCSTI, _TIOCLINUX):  # typing into another's terminal
        code += _when_equal(_here(_IOCTL), 1, request, _DENY)
    for family in _denied_families(deny_sockets):
        code += _when_equal(_here(_SOCKET), 0, family, _ERRNO | errno.EAFNOSUPPORT)
    # The filter cannot look into clone3's record; ENOSYS makes libc use clone instead.
    code += _when_in([_here(_CLONE3)], _ABSENT)
    code += _when_in(_all_here(_DENIED), _DENY)
    if virtual_users:
        code += _when_in(_all_here(_PRETEND), _ERRNO)
    code.append(_op(_RETURN, _ALLOW))
    return b"".join(code)


def build_for_shared_ids() -> bytes:
    """A second filter, for programs whose id other programs of the machine have too.

    Landlock does not keep them from the limits, the priority and the shared memory of those, from
    watching directories, and from attributes of files whose path they know. Attributes of open
    files go on working.
    """
    code = [_op(_LOAD, 0)]
    for numbers, argument, allowed in _OWN_PROCESS_ONLY:
        code += _when_not_equal(_here(numbers), argument, allowed, _DENY)
    code += _when_in(_all_here(_OF_ALL_OF_ONE_ID), _DENY)
    code += _when_in(_all_here(_ATTRIBUTES_BY_PATH), _ERRNO | errno.ENOTSUP)
    code.append(_op(_RETURN, _ALLOW))
    return b"".join(code)


def install(program: bytes) -> None:
    """Put the filter on this process; needs CAP_SYS_ADMIN in its user namespace or no_new_privs.

    Raises ``OSError``.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscalls.call("seccomp", _SET_MODE_FILTER, 0, record)


def _denied_families(every: bool) -> list[int]:
    # packet, vsock (reaches the hypervisor), alg, xdp, smc, tipc, rds, can, bluetooth
    # and where every one is: unix, inet, inet6, netlink
    return [*([1, 2, 10, 16] if every else []), 17, 40, 38, 44, 43, 30, 21, 29, 31]


def _here(numbers: tuple[int | None, int | None]) -> int:
    value = numbers[0 if syscalls.X86_64 else 1]
    if value is None:
        raise KeyError(numbers)
    return value


def _all_here(table: dict[str, tuple[int | None, int | None]]) -> list[int]:
    column = 0 if syscalls.X86_64 else 1
    return sorted(value for row in table.values() if (value := row[column]) is not None)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _when_flags(nr: int, argument: int, mask: int, action: int) -> list[bytes]:
    return [
        _op(_JUMP_EQUAL, nr, 0, 4),
        _op(_LOAD, 16 + 8 * argument),
        _op(_JUMP_SET, mask, 0, 1),
        _op(_RETURN, action),
        _op(_LOAD, 0),
    ]


def _when_equal(nr: int, argument: int, value: int, action: int) -> list[bytes]:
    return [
        _op(_JUMP_EQUAL, nr, 0, 4),
        _op(_LOAD, 16 + 8 * argument),
        _op(_JUMP_EQUAL, value, 0, 1),
        _op(_RETURN, action),
        _op(_LOAD, 0),
    ]


def _when_not_equal(nr: int, argument: int, value: int, action: int) -> list[bytes]:
    return [
        _op(_JUMP_EQUAL, nr, 0, 4),
        _op(_LOAD, 16 + 8 * argument),
        _op(_JUMP_EQUAL, value, 1, 0),
        _op(_RETURN, action),
        _op(_LOAD, 0),
    ]


def _when_in(numbers: list[int], action: int) -> list[bytes]:
    """``action`` for each of the numbers; a jump reaches 255 instructions."""
    code = [_op(_JUMP_EQUAL, nr, len(numbers) - index, 0) for index, nr in enumerate(numbers)]
    return [*code, _op(_JUMP, 1), _op(_RETURN, action)]
