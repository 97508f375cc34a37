"""Messages with descriptors on a SEQPACKET socket, sent and received blockingly.

The framing is described in ``protocol/agent.py``. The agent and the zygote use ``send`` and
``receive``; the engine's asynchronous channel uses ``encode`` and ``decode`` on the same bytes.
The peer may be hostile: every number that it sends is bounded before it is used.
"""

from __future__ import annotations

import array
import errno
import fcntl
import json
import os
import socket
import stat
import time
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.protocol.agent import INLINE_LIMIT, MAX_DESCRIPTORS, MAX_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

Body = dict[str, Any]

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_INT_SIZE: Final = array.array("i").itemsize

BUFFER_SIZE: Final = INLINE_LIMIT + 1
"""One byte more than a datagram may have, so that a longer one is noticed."""

ANCILLARY_SIZE: Final = socket.CMSG_SPACE((MAX_DESCRIPTORS + 1) * _INT_SIZE)
"""Room for all descriptors of a message and its memfd."""


SHORTAGE: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""The kernel has no room for a message just now: others have too much in flight."""

_TRIES: Final = 5
_RETRY_DELAY: Final = 0.02


class Encoded(Body):
    """An answer that is JSON already; long ones are put together faster than by an encoder."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload = payload


class WireError(Exception):
    """The peer broke the rules of the channel; the channel must be closed."""


def encode(body: Body, fds: Sequence[int] = ()) -> tuple[bytes, list[int], int | None]:
    """The datagram of a message, the descriptors to send with it, and a memfd to close after.

    Raises ``WireError`` for a message that is too large or has too many descriptors.
    """
    if len(fds) > MAX_DESCRIPTORS:
        raise WireError(f"{len(fds)} descriptors in one message")
    answer = body.get("ok")
    if isinstance(answer, Encoded):
        payload = b'{"id":%b,"ok":%b}' % (json.dumps(body["id"]).encode(), answer.payload)
    else:
        payload = json.dumps(body, separators=(",", ":")).encode()
    if len(payload) <= INLINE_LIMIT:
        return payload, list(fds), None
    if len(payload) > MAX_MESSAGE_SIZE:
        raise WireError(f"a message of {len(payload)} bytes")
    memfd = _pack(payload)
    return b'{"memfd":%d}' % len(payload), [memfd, *fds], memfd


def decode(
    datagram: bytes, ancillary: Sequence[tuple[int, int, bytes]], flags: int
) -> tuple[Body, list[int]]:
    """The message and the descriptors that ``recvmsg`` gave; the caller owns the descriptors.

    Raises ``WireError`` after closing every descriptor when the message is not well formed.
    """
    payload, fds = unwrap(datagram, ancillary, flags)
    try:
        return parse(payload), fds
    except WireError:
        close_all(fds)
        raise


def unwrap(
    datagram: bytes, ancillary: Sequence[tuple[int, int, bytes]], flags: int
) -> tuple[bytes, list[int]]:
    """Like ``decode``, but returns the message as unparsed JSON text."""
    fds = descriptors(ancillary)
    try:
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC) or len(datagram) > INLINE_LIMIT:
            raise WireError("a message was cut off")
        if b'"memfd"' in datagram and "memfd" in (body := parse(datagram)):
            return _unpack(body["memfd"], fds), fds
    except WireError:
        close_all(fds)
        raise
    return datagram, fds


def send(sock: socket.socket, body: Body, fds: Sequence[int] = ()) -> None:
    """Send one message; blocks while the peer's queue is full. The caller keeps ``fds``.

    Raises ``OSError`` when the peer is gone or as ``transmit``, and ``WireError`` when the message
    is too large.
    """
    datagram, all_fds, memfd = encode(body, fds)
    try:
        transmit(sock, [datagram], all_fds)
    finally:
        if memfd is not None:
            os.close(memfd)


def transmit(sock: socket.socket, parts: Sequence[bytes], fds: Sequence[int]) -> None:
    """Send an encoded message, again for a tenth of a second while the kernel has no room for it.

    Raises ``OSError``: of ``SHORTAGE`` when there is no room still, and nothing was sent then.
    """
    for left in reversed(range(_TRIES)):
        try:
            sock.sendmsg(parts, rights(fds), socket.MSG_NOSIGNAL)
            return
        except OSError as error:
            if error.errno not in SHORTAGE or not left:
                raise
        time.sleep(_RETRY_DELAY)


def receive(sock: socket.socket) -> tuple[Body, list[int]] | None:
    """Receive one message and its descriptors; ``None`` when the peer has closed.

    Raises ``WireError`` when the message is not well formed.
    """
    received = receive_payload(sock)
    if received is None:
        return None
    payload, fds = received
    try:
        return parse(payload), fds
    except WireError:
        close_all(fds)
        raise


def receive_payload(sock: socket.socket) -> tuple[bytes, list[int]] | None:
    """Like ``receive``, but returns the message as unparsed JSON text."""
    datagram, ancillary, flags, _ = sock.recvmsg(
        BUFFER_SIZE, ANCILLARY_SIZE, socket.MSG_CMSG_CLOEXEC
    )
    if not datagram:
        close_all(descriptors(ancillary))
        return None
    return unwrap(datagram, ancillary, flags)


def rights(fds: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """The ancillary data that carries descriptors."""
    if not fds:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]


def close_all(fds: list[int]) -> None:
    """Close every descriptor of the list and empty it."""
    while fds:
        os.close(fds.pop())


def descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors in what ``recvmsg`` gave; the caller owns them."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) // _INT_SIZE * _INT_SIZE])
    return list(fds)


def parse(payload: bytes) -> Body:
    """A message from its JSON text. Raises ``WireError``."""
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise WireError("a message that is not JSON") from error
    if not isinstance(body, dict):
        raise WireError("a message that is not a JSON object")
    return cast("Body", body)


def _pack(payload: bytes) -> int:
    """A sealed memfd: the receiver can trust that its content no longer changes."""
    memfd = os.memfd_create("message", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(memfd, payload)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(memfd)
        raise
    return memfd


def write_all(fd: int, content: bytes) -> None:
    """Write all of it; blocking. Raises ``OSError``."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _unpack(size: object, fds: list[int]) -> bytes:
    if not isinstance(size, int) or not 0 < size <= MAX_MESSAGE_SIZE or not fds:
        raise WireError("a memfd message without its memfd")
    memfd = fds.pop(0)
    try:
        # Only a memfd can carry seals, so this also refuses pipes and files of slow file systems.
        seals = fcntl.fcntl(memfd, fcntl.F_GET_SEALS)
        status = os.fstat(memfd)
        if seals & _SEALS != _SEALS or not stat.S_ISREG(status.st_mode) or status.st_size != size:
            raise WireError("a memfd that is not sealed or has another size")
        return os.pread(memfd, size, 0)
    except OSError as error:
        raise WireError("a descriptor that is no memfd") from error
    finally:
        os.close(memfd)
