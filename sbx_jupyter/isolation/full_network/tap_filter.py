"""Builds and attaches the packet filter for what a sandbox sends.

The filter is attached to the tap interface itself, so it applies to every frame, whatever route or
socket option chose the interface. Programs in the sandbox cannot change it: that needs a descriptor
of the interface, which only slirp4netns and the process that started it have.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError, UnavailableError
from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Sequence

Range = tuple[int, int]
"""First and last IPv4 address, as numbers."""

MAX_INSTRUCTIONS: Final = 4096
_TUNATTACHFILTER: Final = 0x401054D5
_TUN_DEVICE: Final = os.makedev(10, 200)

_ARP: Final = 0x0806
_IPV4: Final = 0x0800
_TCP: Final = 6
_UDP: Final = 17
_DNS_PORT: Final = 53

_LOAD_WORD: Final = 0x20
_LOAD_HALF: Final = 0x28
_LOAD_BYTE: Final = 0x30
_LOAD_HALF_AT_X: Final = 0x48
_HEADER_LENGTH_TO_X: Final = 0xB1
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER_EQUAL: Final = 0x35
_JUMP_SET: Final = 0x45
_RETURN: Final = 0x06

_DROP: Final = struct.pack("HBBI", _RETURN, 0, 0, 0)
_PASS: Final = struct.pack("HBBI", _RETURN, 0, 0, 0xFFFFFFFF)


def build(ranges: Sequence[Range], dns: int | None = None) -> bytes:
    """A program that allows IPv4 to the ranges, ARP, and DNS to the address ``dns``.

    Raises ``InvalidArgumentError`` when there are too many ranges for the kernel.
    """
    code = [
        _op(_LOAD_HALF, 12),  # the type of the frame
        _op(_JUMP_EQUAL, _ARP, 0, 1),
        _PASS,
        _op(_JUMP_EQUAL, _IPV4, 1, 0),
        _DROP,
    ]
    if dns is not None:
        code += _pass_dns(dns)
    code.append(_op(_LOAD_WORD, 30))  # the destination
    for first, last in ranges:
        code += [_op(_JUMP_GREATER_EQUAL, first, 1, 0), _DROP]
        if last < 0xFFFFFFFF:
            code += [_op(_JUMP_GREATER_EQUAL, last + 1, 1, 0), _PASS]
        else:
            code.append(_PASS)
    code.append(_DROP)
    if len(code) > MAX_INSTRUCTIONS:
        raise InvalidArgumentError(f"{len(ranges)} ranges are too many for a packet filter")
    return b"".join(code)


def attach(tap: int, program: bytes) -> None:
    """Attach a filter to the interface with the descriptor ``tap``, replacing the current one.

    Raises ``OSError``.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    fcntl.ioctl(tap, _TUNATTACHFILTER, record)


def take_tap(pid: int) -> int:
    """A descriptor of the tap interface that a slirp4netns serves.

    Raises ``UnavailableError`` when it serves none, ``OSError`` when the kernel denies access.
    """
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            is_tap = os.stat(f"{folder}/{name}").st_rdev == _TUN_DEVICE
        except FileNotFoundError:
            continue
        if is_tap:
            pidfd = os.pidfd_open(pid)
            try:
                return syscalls.call("pidfd_getfd", pidfd, int(name), 0)
            finally:
                os.close(pidfd)
    raise UnavailableError("slirp4netns has no interface")


def _pass_dns(address: int) -> list[bytes]:
    """Allow packets to port 53 of the address; fragments, which may lack the port, are dropped."""
    steps = [
        _op(_LOAD_BYTE, 23),
        _op(_JUMP_EQUAL, _UDP, 1, 0),
        _op(_JUMP_EQUAL, _TCP, 0, 5),
        _op(_LOAD_HALF, 20),
        _op(_JUMP_SET, 0x3FFF, 3, 0),
        _op(_HEADER_LENGTH_TO_X, 14),
        _op(_LOAD_HALF_AT_X, 16),
        _op(_JUMP_EQUAL, _DNS_PORT, 1, 0),
        _DROP,
        _PASS,
    ]
    return [_op(_LOAD_WORD, 30), _op(_JUMP_EQUAL, address, 0, len(steps)), *steps]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
