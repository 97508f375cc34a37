"""Delivers connections to programs that accept them, and to listeners outside the sandbox."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.loopback.calls import failure
from sbx_jupyter.isolation.loopback.labels import Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.loopback.calls import SocketCall

FAILURES: Final = (OSError, OverflowError, ValueError, struct.error)
"""Errors that forged arguments can cause; each becomes an error of the program's call."""
_DRAINED: Final = 4096


def code_of(error: BaseException) -> int:
    """The number of the error that a program sees."""
    return getattr(error, "errno", None) or errno.EFAULT


def hand_over(call: SocketCall, end: socket.socket) -> bool:
    """Whether the caller has the connection now; if not, it belongs to the next one."""
    try:
        if call.arguments[1]:
            label = Label.of(end)
            call.write(label.address(of_peer=True) if label else b"", 1, 2)
        end.setblocking(not call.flags & socket.SOCK_NONBLOCK)
        call.asked.give(end.fileno(), close_on_exec=bool(call.flags & socket.SOCK_CLOEXEC))
    except FAILURES as error:
        call.asked.answer(code_of(error))
        return False
    end.close()
    return True


def sender(way: socket.socket) -> Callable[[socket.socket], None]:
    """A function that sends connections to an outside listener; ``OSError`` if that is busy."""
    poll = select.poll()
    poll.register(way, select.POLLOUT)
    if not poll.poll(0):
        raise failure(errno.ECONNREFUSED)

    def send(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):  # a connection that ends at once
            socket.send_fds(way, [b"\0"], [end.fileno()])

    return send


def teller(text: bytes) -> Callable[[socket.socket], None]:
    """A function that writes a text to a connection, as much as fits at once, and closes it."""

    def tell(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):  # a program that is gone
            end.send(text, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    return tell


def drain(sock: socket.socket) -> None:
    """Read away what told a program that connections wait."""
    with contextlib.suppress(OSError):  # it is empty
        while len(sock.recv(_DRAINED, socket.MSG_DONTWAIT)) == _DRAINED:
            pass
