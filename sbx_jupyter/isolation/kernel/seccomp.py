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

from sbx_jupyter.isolation.kernel import bpf, syscalls

_DENIED: Final[dict[str, bpf.Numbers]] = {
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

_PRETEND: Final[dict[str, bpf.Numbers]] = {
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

_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_SOCKETPAIR: Final = (53, 199)
_SENDTO: Final = (44, 206)
_ADDRESSED: Final[dict[str, bpf.Numbers]] = {"connect": (42, 203), "bind": (49, 200)}
_DENIED_FAMILIES: Final = (17, 40, 38, 44, 43, 30, 21, 29, 31)
"""Packet, vsock (reaches the hypervisor), alg, xdp, smc, tipc, rds, can, bluetooth."""
_UNIX: Final = 1
_STREAM: Final = 1
_SEQPACKET: Final = 5
_KIND_MASK: Final = 0xF
_IOCTL: Final = (16, 29)
_SET_AFFINITY: Final = (203, 122)

_NEW_NAMESPACES: Final = 0x7E020000  # every CLONE_NEW* flag that clone(2) knows
_AUDIT_ARCH: Final = 0xC000003E if syscalls.X86_64 else 0xC00000B7
_X32_BIT: Final = 0x40000000
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

_SET_MODE_FILTER: Final = 1
_DENY: Final = bpf.ERRNO | errno.EPERM
_ABSENT: Final = bpf.ERRNO | errno.ENOSYS
_NO_FAMILY: Final = bpf.ERRNO | errno.EAFNOSUPPORT
_DONE: Final = bpf.ERRNO
"""Success without effect."""


def build(
    *, virtual_users: bool = False, deny_sockets: bool = False, hold_processors: bool = False
) -> bytes:
    """The filter program.

    ``virtual_users`` lets changes of owner and id succeed without effect, ``hold_processors`` the
    choice of processors, so that a sandbox stays on those that it was given. ``deny_sockets``
    is for sandboxes without a network namespace: only connected pairs of sockets work there.
    """
    code = [
        bpf.op(bpf.LOAD, 4),  # the architecture
        bpf.op(bpf.JUMP_EQUAL, _AUDIT_ARCH, 1, 0),
        bpf.op(bpf.RETURN, bpf.KILL_PROCESS),
        bpf.load_number(),
    ]
    if syscalls.X86_64:
        code += [bpf.op(bpf.JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), bpf.op(bpf.RETURN, _ABSENT)]
    code += bpf.when_flags(bpf.here(_CLONE), 0, _NEW_NAMESPACES, _DENY)
    for request in (_TIOCSTI, _TIOCLINUX):  # typing into another's terminal
        code += bpf.when_equal(bpf.here(_IOCTL), 1, request, _DENY)
    if deny_sockets:
        code += _only_connected_pairs()
    for family in _DENIED_FAMILIES:
        code += bpf.when_equal(bpf.here(_SOCKET), 0, family, _NO_FAMILY)
    # The filter cannot look into clone3's record; ENOSYS makes libc use clone instead.
    code += bpf.when_in([bpf.here(_CLONE3)], _ABSENT)
    code += bpf.when_in(bpf.all_here(_DENIED), _DENY)
    if virtual_users:
        code += bpf.when_in(bpf.all_here(_PRETEND), _DONE)
    if hold_processors:
        code += bpf.when_in([bpf.here(_SET_AFFINITY)], _DONE)
    code.append(bpf.op(bpf.RETURN, bpf.ALLOW))
    return b"".join(code)


def install(program: bytes) -> None:
    """Put the filter on this process; needs CAP_SYS_ADMIN in its user namespace or no_new_privs.

    Raises ``OSError``.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscalls.call("seccomp", _SET_MODE_FILTER, 0, record)


def _only_connected_pairs() -> list[bytes]:
    """Sockets that are connected for good: the address of a message has no effect on those.

    Any other kind of pair, such as one of datagrams, sends to every path that its program can name.
    """
    pair = bpf.here(_SOCKETPAIR)
    kinds = [kind for kind in range(_KIND_MASK + 1) if kind not in (_STREAM, _SEQPACKET)]
    code = bpf.when_in([bpf.here(_SOCKET)], _NO_FAMILY)
    code += bpf.when_not_equal(pair, 0, _UNIX, _NO_FAMILY)
    code += bpf.when_masked(pair, 1, _KIND_MASK, kinds, (), bpf.ERRNO | errno.ESOCKTNOSUPPORT)
    code += bpf.when_pointer(bpf.here(_SENDTO), 4, _DENY)
    return code + bpf.when_in(bpf.all_here(_ADDRESSED), _DENY)
