"""The broker's record of a socket, kept in the socket itself."""

from __future__ import annotations

import enum
import socket
import struct
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.isolation.loopback.rules import SO_MAX_PACING_RATE

_LAYOUT: Final = "=HHBBBB"
_MARK: Final = 0x5B


class State(enum.IntEnum):
    """The state of a socket."""

    NEW = 0
    BOUND = 1
    LISTENING = 2
    CONNECTED = 3


@dataclass(slots=True)
class Label:
    """Family, state and ports of a socket.

    They are stored as its pacing rate: 8 bytes that Unix sockets do not use and that the filter
    keeps programs from setting. So there is no table of connections that could grow, and nothing to
    do when a socket is passed on, inherited or closed.
    """

    family: int
    state: State = State.NEW
    port: int = 0
    peer: int = 0
    is_any: bool = False
    """Bound to all addresses."""
    only_v6: bool = False
    is_mapped: bool = False
    """An IPv4 connection of an IPv6 socket."""

    @classmethod
    def of(cls, sock: socket.socket) -> Label | None:
        """The label of a socket; None where the broker did not make it. Raises ``OSError``."""
        raw = sock.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8)
        port, peer, family, state, bits, mark = struct.unpack(_LAYOUT, raw)
        if mark != _MARK:
            return None
        return cls(family, State(state), port, peer, bool(bits & 1), bool(bits & 2), bool(bits & 4))

    def put(self, sock: socket.socket) -> None:
        """Store it in a socket. Raises ``OSError``."""
        bits = self.is_any | self.only_v6 << 1 | self.is_mapped << 2
        raw = struct.pack(_LAYOUT, self.port, self.peer, self.family, self.state, bits, _MARK)
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, raw)

    def address(self, *, of_peer: bool = False) -> bytes:
        """The address of the socket or of its peer, as the kernel writes it."""
        if self.family == socket.AF_UNIX:
            return struct.pack("H", socket.AF_UNIX)
        port = self.peer if of_peer else self.port
        no_host = not of_peer and self.state != State.CONNECTED and (self.is_any or not self.port)
        if self.family == socket.AF_INET:
            host = bytes(4) if no_host else b"\x7f\0\0\1"
            return struct.pack("H", socket.AF_INET) + struct.pack(">H", port) + host + bytes(8)
        name = "::" if no_host else "::ffff:127.0.0.1" if self.is_mapped else "::1"
        start = struct.pack("H", socket.AF_INET6) + struct.pack(">HI", port, 0)
        return start + socket.inet_pton(socket.AF_INET6, name) + bytes(4)
