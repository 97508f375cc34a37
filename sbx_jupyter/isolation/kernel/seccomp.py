"""The system call filter of a sandbox, as raw BPF: no libseccomp is needed.

Only calls of a list (``allowed_calls``) reach the kernel, some of them with certain arguments only.
Those that are refused by name fail with EPERM. All others, and so whatever a new kernel brings,
fail with ENOSYS, for which the C library and programs have a substitute.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import struct
from typing import Final

from sbx_jupyter.isolation.kernel import bpf, call_numbers, syscalls
from sbx_jupyter.isolation.kernel.allowed_calls import ALLOWED, FORBIDDEN

PRETENDED: Final = (
    "chown", "lchown", "fchown", "fchownat", "setgroups", "setuid", "setgid", "setreuid",
    "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
)  # fmt: skip
"""Success without effect, for ids that all are one: useradd, su, dpkg and tar go through."""

_UNIX: Final = 1
_INET: Final = 2
_INET6: Final = 10
_NETLINK: Final = 16
_FAMILIES: Final = (_UNIX, _INET, _INET6, _NETLINK)
"""Unix, IPv4, IPv6 and netlink: other families have loaded and broken parts of the kernel."""
_PROTOCOLS: Final = (0, 1, 6, 17, 58)
"""The default, ICMP, TCP, UDP and ICMPv6: for any other the kernel would load a module."""
_STREAM: Final = 1
_SEQPACKET: Final = 5
_KIND_MASK: Final = 0xF

_PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""The values that container engines allow, and no random addresses (0x40000) for debuggers."""
_NEW_NAMESPACES: Final = 0x7E020000  # every CLONE_NEW* flag that clone(2) knows
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_TIOCSETD: Final = 0x5423
"""Sets another line discipline, for which the kernel would load a module."""
_RLIMIT_CORE: Final = 4
_NEW_SUBVOLUMES: Final = (0x50009401, 0x5000940E, 0x50009417, 0x50009418)
"""Requests of btrfs: subvolumes made in a volume would not count against the volume's limit."""

ARCHITECTURES: Final = {call_numbers.X86_64: 0xC000003E, call_numbers.AARCH64: 0xC00000B7}
"""The kernel's number for each machine, as the filter sees it."""

_SET_MODE_FILTER: Final = 1
_DENY: Final = bpf.ERRNO | errno.EPERM
_ABSENT: Final = bpf.ERRNO | errno.ENOSYS
_NO_FAMILY: Final = bpf.ERRNO | errno.EAFNOSUPPORT
_NO_KIND: Final = bpf.ERRNO | errno.ESOCKTNOSUPPORT
_NO_PROTOCOL: Final = bpf.ERRNO | errno.EPROTONOSUPPORT
_NO_NETLINK: Final = bpf.ERRNO | errno.EOPNOTSUPP
"""The error for which libzmq goes on without the list of interfaces; it aborts on others."""
_DONE: Final = bpf.ERRNO
"""Success without effect."""


def rules(
    *,
    virtual_users: bool = False,
    deny_sockets: bool = False,
    hold_processors: bool = False,
    loopback: bool = False,
) -> dict[str, bpf.Rule]:
    """The filter's rule for each call; a call without a rule fails with ENOSYS.

    ``virtual_users`` lets changes of owner and id succeed without effect, ``hold_processors`` the
    choice of processors, so that a sandbox stays on those that it was given. ``deny_sockets``
    is for sandboxes without a network namespace: only connected pairs of sockets work there. With
    ``loopback``, another filter hands all calls about other sockets to the keeper.
    """
    found = dict.fromkeys(ALLOWED, bpf.ALLOW) | dict.fromkeys(FORBIDDEN, bpf.answer(_DENY))
    # clone3 stays absent: the filter cannot look into its record. The C library uses clone then.
    found["clone"] = bpf.unless_flags(0, _NEW_NAMESPACES, _DENY)
    typing = (_TIOCSTI, _TIOCLINUX)  # for somebody else
    found["ioctl"] = bpf.unless_in(1, (*typing, _TIOCSETD, *_NEW_SUBVOLUMES), _DENY)
    found["personality"] = bpf.only_in(0, _PERSONALITIES, _DENY)
    found["socketpair"] = bpf.only_in(0, _FAMILIES, _NO_FAMILY)
    known = bpf.only_in(2, _PROTOCOLS, _NO_PROTOCOL)
    known = bpf.by_value(0, {_INET: known, _INET6: known})
    found["socket"] = bpf.only_in(0, _FAMILIES, _NO_FAMILY, then=known)
    # With another limit than that of ``namespaces.limit``, the machine would save core dumps.
    found["setrlimit"] = bpf.by_value(0, {_RLIMIT_CORE: bpf.answer(_DONE)})
    found["prlimit64"] = bpf.by_value(1, {_RLIMIT_CORE: bpf.unless_pointer(2, _DONE)})
    if deny_sockets:
        found |= _only_connected_pairs()
    if loopback:
        found |= _streams_for_the_keeper()
    if virtual_users:
        found |= dict.fromkeys(PRETENDED, bpf.answer(_DONE))
    if hold_processors:
        found["sched_setaffinity"] = bpf.answer(_DONE)
    return found


@functools.cache
def build(
    *,
    virtual_users: bool = False,
    deny_sockets: bool = False,
    hold_processors: bool = False,
    loopback: bool = False,
    machine: str = call_numbers.HERE,
) -> bytes:
    """The filter program with these ``rules``; calls of foreign architectures kill the caller."""
    numbers = call_numbers.NUMBERS[machine]
    found = rules(
        virtual_users=virtual_users,
        deny_sockets=deny_sockets,
        hold_processors=hold_processors,
        loopback=loopback,
    )
    here = {numbers[name]: rule for name, rule in found.items() if name in numbers}
    # The numbers of x32 are far above all others, and so absent.
    return bpf.program(ARCHITECTURES[machine], here, bpf.answer(_ABSENT))


def install(program: bytes) -> None:
    """Put the filter on this process; needs CAP_SYS_ADMIN in its user namespace or no_new_privs.

    Raises ``OSError``.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscalls.call("seccomp", _SET_MODE_FILTER, 0, record)


def _only_connected_pairs() -> dict[str, bpf.Rule]:
    """Sockets that are connected for good: the address of a message has no effect on those.

    Any other kind of pair, such as one of datagrams, sends to every path that its program can name.
    """
    kinds = [kind for kind in range(_KIND_MASK + 1) if kind not in (_STREAM, _SEQPACKET)]
    of_a_kind = bpf.unless_masked(1, _KIND_MASK, kinds, (), _NO_KIND)
    return {
        "socket": bpf.answer(_NO_FAMILY),
        "socketpair": bpf.only_in(0, (_UNIX,), _NO_FAMILY, then=of_a_kind),
        "sendto": bpf.unless_pointer(4, _DENY),
        "connect": bpf.answer(_DENY),
        "bind": bpf.answer(_DENY),
    }


def _streams_for_the_keeper() -> dict[str, bpf.Rule]:
    """Calls that the filter of every program hands to the keeper; none of them may fail before."""
    stream = bpf.only_masked(1, _KIND_MASK, _STREAM, _NO_PROTOCOL)
    stream = bpf.only_in(0, (_UNIX, _INET, _INET6), _NO_FAMILY, then=stream)
    return {
        "socket": bpf.by_value(0, {_NETLINK: bpf.answer(_NO_NETLINK)}, stream),
        "connect": bpf.ALLOW,
        "bind": bpf.ALLOW,
    }
