"""Reads how much memory the sockets of a network namespace hold, from the kernel's own account."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST_AND_DUMP: Final = 0x301
_HEADER: Final = struct.Struct("=IHHII")
_ERROR: Final = 2
_DONE: Final = 3
_ALL_STATES: Final = 0xFFFFFFFF
_INET_REQUEST: Final = struct.Struct("=BBBxI48x")
_INET_ANSWER: Final = 72
_INET_INODE: Final = 68
_INET_MEMORY: Final = 7
_UNIX_REQUEST: Final = struct.Struct("=BBHIIIII")
_UNIX_ANSWER: Final = 16
_UNIX_INODE: Final = 4
_UNIX_MEMORY: Final = 5
_SHOW_MEMORY: Final = 0x20
_MEMORY: Final = struct.Struct("=8I")
_ATTRIBUTE: Final = struct.Struct("=HH")
_MOST_BYTES: Final = 1 << 18
_TIMEOUT: Final = 5.0


def read_all() -> dict[int, int]:
    """Bytes by the inode of each socket of this namespace; closed ones count as inode 0.

    A kind of socket that this kernel gives no account of is left out.
    """
    found: dict[int, int] = {}
    kinds = [(family, kind) for family in (socket.AF_INET, socket.AF_INET6) for kind in (6, 17)]
    for family, kind in kinds:
        request = _INET_REQUEST.pack(family, kind, 1 << (_INET_MEMORY - 1), _ALL_STATES)
        _add(found, request, _INET_ANSWER, _INET_INODE, _INET_MEMORY)
    request = _UNIX_REQUEST.pack(
        socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_MEMORY, _ALL_STATES, _ALL_STATES
    )
    _add(found, request, _UNIX_ANSWER, _UNIX_INODE, _UNIX_MEMORY)
    return found


def _add(found: dict[int, int], request: bytes, fixed: int, inode_at: int, wanted: int) -> None:
    with contextlib.suppress(OSError):
        for answer in _dump(request):
            (inode,) = struct.unpack_from("=I", answer, inode_at)
            found[inode] = found.get(inode, 0) + _memory(answer[fixed:], wanted)


def _dump(request: bytes) -> Iterator[bytes]:
    """The answers to a request. Raises ``OSError``."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as sock:
        sock.settimeout(_TIMEOUT)
        size = _HEADER.size + len(request)
        sock.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST_AND_DUMP, 1, 0) + request)
        while True:
            data = sock.recv(_MOST_BYTES)
            while data:
                length, kind, _, _, _ = _HEADER.unpack_from(data)
                if kind in (_DONE, _ERROR) or length < _HEADER.size:
                    return
                yield data[_HEADER.size : length]
                data = data[(length + 3) & ~3 :]


def _memory(attributes: bytes, wanted: int) -> int:
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if length < _ATTRIBUTE.size:
            return 0
        if kind == wanted and length >= _ATTRIBUTE.size + _MEMORY.size:
            received, _, sent, _, _, queued, options, backlog = _MEMORY.unpack_from(
                attributes, _ATTRIBUTE.size
            )
            return received + max(sent, queued) + options + backlog
        attributes = attributes[(length + 3) & ~3 :]
    return 0
