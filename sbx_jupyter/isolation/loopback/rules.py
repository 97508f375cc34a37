"""The part of a program's filter that hands calls about sockets to the keeper."""

from __future__ import annotations

import errno
from typing import Final

from sbx_jupyter.isolation.kernel import bpf

BROKERED: Final = (
    "socket", "connect", "accept", "accept4", "bind", "listen", "getsockname", "getpeername",
    "setsockopt", "getsockopt",
)  # fmt: skip
"""Calls that the broker answers, the last two in part."""

SOL_SOCKET: Final = 1
SOL_TCP: Final = 6
SOL_IPV6: Final = 41
IPV6_V6ONLY: Final = 26
SO_ERROR: Final = 4
SO_REUSEPORT: Final = 15
SO_ACCEPTCONN: Final = 30
SO_PROTOCOL: Final = 38
SO_DOMAIN: Final = 39
SO_MAX_PACING_RATE: Final = 47
_SO_PASSPIDFD: Final = 76
_SO_PEERPIDFD: Final = 77

_ASK: Final = bpf.answer(bpf.NOTIFY)
_DENY: Final = bpf.answer(bpf.ERRNO | errno.EPERM)
_DONE: Final = bpf.answer(bpf.ERRNO)


def rules() -> dict[str, bpf.Rule]:
    """The filter's rule for each call about sockets.

    Options of TCP and IP do nothing on a pair, so that setting one succeeds at once.
    """
    found: dict[str, bpf.Rule] = {}
    found |= dict.fromkeys(BROKERED, _ASK)
    set_of_socket: dict[int, bpf.Rule] = {
        SO_MAX_PACING_RATE: _DENY,  # holds a ``Label``
        _SO_PASSPIDFD: _DENY,  # the other end may be the keeper's
        SO_REUSEPORT: _DONE,  # an error for Unix sockets, which programs do not expect
    }
    found["setsockopt"] = bpf.by_value(
        1,
        {
            SOL_SOCKET: bpf.by_value(2, set_of_socket),
            SOL_IPV6: bpf.by_value(2, {IPV6_V6ONLY: _ASK}, _DONE),
        },
        _DONE,
    )
    got_of_socket: dict[int, bpf.Rule] = {}
    got_of_socket |= dict.fromkeys((SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_ERROR), _ASK)
    got_of_socket |= dict.fromkeys((SO_MAX_PACING_RATE, _SO_PEERPIDFD), _DENY)
    found["getsockopt"] = bpf.by_value(1, {SOL_SOCKET: bpf.by_value(2, got_of_socket)}, _ASK)
    return found
