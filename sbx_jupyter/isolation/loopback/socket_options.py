"""Values of socket options, for programs that have one end of a pair as their connection."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

from sbx_jupyter.isolation.loopback import rules
from sbx_jupyter.isolation.loopback.calls import failure
from sbx_jupyter.isolation.loopback.labels import Label, State

_TCP: Final = 6
_TCP_INFO: Final = 11
_TCP_INFO_SIZE: Final = 104
_TCP_STATES: Final = {State.CONNECTED: 1, State.LISTENING: 10}
_CLOSED: Final = 7
_TCP_NODELAY: Final = 1
_TCP_MAXSEG: Final = 2
_SEGMENT: Final = 65483
"""The maximum segment size that the kernel reports for its loopback interface."""


def value_of(
    sock: socket.socket, label: Label, level: int, option: int, is_unconnected: bool
) -> bytes:
    """The value of an option that the filter lets the broker answer. Raises ``OSError``."""
    is_unix = label.family == socket.AF_UNIX
    if level == rules.SOL_SOCKET:
        return struct.pack("i", _of_socket(sock, label, option, is_unconnected))
    if is_unix:
        raise failure(errno.EOPNOTSUPP)
    if (level, option) == (rules.SOL_TCP, _TCP_INFO):
        return bytes([_TCP_STATES.get(label.state, _CLOSED)]).ljust(_TCP_INFO_SIZE, b"\0")
    known = {
        (rules.SOL_TCP, _TCP_NODELAY): 1,
        (rules.SOL_TCP, _TCP_MAXSEG): _SEGMENT,
        (rules.SOL_IPV6, rules.IPV6_V6ONLY): int(label.only_v6),
    }
    return struct.pack("i", known.get((level, option), 0))


def _of_socket(sock: socket.socket, label: Label, option: int, is_unconnected: bool) -> int:
    match option:
        case rules.SO_DOMAIN:
            return label.family
        case rules.SO_PROTOCOL:
            return 0 if label.family == socket.AF_UNIX else _TCP
        case rules.SO_ACCEPTCONN:
            return int(label.state == State.LISTENING)
        case _:  # SO_ERROR
            if is_unconnected and label.state == State.NEW:
                # A signal ended its connect before the broker heard of it: no hang, but an error.
                return errno.ECONNABORTED
            return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
