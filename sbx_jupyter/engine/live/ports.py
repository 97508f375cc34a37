"""Connections from the engine to TCP ports inside one sandbox.

A socket keeps the network namespace that it was made in. The agent makes unconnected sockets ahead
of time and the engine connects them itself, so a connection needs no relay and no call. Where the
keeper is the loopback interface, each connection is one end of a pair, and the keeper hands the
other end to the listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import weakref
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.keeper_requests import DONE as _DONE
from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.listeners import KeptListener, TcpListener, wait_readable
from sbx_jupyter.errors import InternalError, SbxError, UnavailableError
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.sockets import TABLE_PORT, listening_ports

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.engine.live.listeners import Listener

_POOL_SIZE: Final = 16
_POOL_SIZE_V6: Final = 4
_CONNECT_TIMEOUT: Final = 10.0
_LONGEST_TABLE: Final = 1 << 20
"""Bytes of the list of ports with a listener; the keeper sends what a socket holds at once."""

_CHUNK: Final = 1 << 16
_LONGEST_ANSWER: Final = 16
_HOSTS: Final = {4: "127.0.0.1", 6: "::1"}


class Ports:
    """Connects to ports of one sandbox, and listens on ports inside it."""

    def __init__(self, agent: AgentCaller) -> None:
        self._agent = agent
        self._pools: dict[int, list[socket.socket]] = {4: [], 6: []}
        self._locks = {4: asyncio.Lock(), 6: asyncio.Lock()}
        self._prepared: dict[int, Listener] = {}
        self._is_closed = False
        self._disconnected_by: SbxError | None = None
        self.are_kept = False
        """Whether the keeper of the sandbox makes the connections."""
        self._connected: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def connect(self, port: int) -> socket.socket:
        """Connect to 127.0.0.1, else to ::1; the socket does not block.

        Raises ``UnavailableError`` when nothing listens there, or the sandbox is being paused.
        """
        if self.are_kept:
            return await self._connect_kept(port)
        for family in (4, 6):
            try:
                return await self._connect(family, port)
            except OSError as error:
                refused = error.errno in (errno.ECONNREFUSED, errno.EADDRNOTAVAIL)
                if not refused and family == 4:
                    raise UnavailableError(f"port {port} does not answer") from error
            except SbxError:
                if family == 4:
                    raise
        raise UnavailableError("port is not open")

    async def prepare(self, port: int) -> None:
        """Listen on 127.0.0.1 ahead of time, so that ``listen`` needs no call."""
        listener = await self.listen(port)
        if self._is_closed:
            listener.close()
            raise UnavailableError("the sandbox is not running any more")
        self._prepared[port] = listener

    async def listen(self, port: int, host: str = _HOSTS[4]) -> Listener:
        """Listen on the loopback interface of the sandbox. Raises ``SbxError``."""
        if host == _HOSTS[4] and (prepared := self._prepared.pop(port, None)) is not None:
            return prepared
        if self.are_kept:
            try:
                return KeptListener(await self._ask_keeper(ops.LISTEN_OUTSIDE, port))
            except OSError as error:  # also when the sandbox ends meanwhile
                raise UnavailableError(f"port {port} cannot be had: {error}") from error
        reply = await self._agent.call(ops.LISTEN, host=host, port=port)
        (fd,) = descriptors.take(reply.fds, descriptors.is_tcp_socket)
        sock = _socket(fd)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.close()
            raise InternalError("the sandbox answered with a socket that does not listen")
        return TcpListener(sock)

    async def listening(self) -> set[int]:
        """The ports on which programs listen, where the keeper is the loopback interface.

        Raises ``UnavailableError``.
        """
        try:
            with await self._connect_kept(TABLE_PORT) as sock:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    table = await _read_end(sock)
        except OSError as error:
            raise UnavailableError(f"the ports are not known: {error}") from error
        return listening_ports(table.decode("ascii", "replace"))

    async def take(self) -> socket.socket:
        """An unconnected TCP socket of the sandbox's network namespace; the caller owns it."""
        return await self._take(4)

    def disconnect(self, error: SbxError) -> None:
        """Shut down all connections, and refuse new ones with ``error`` until ``resume``.

        Their owners see them closed.
        """
        self._disconnected_by = error
        for sock in list(self._connected):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def resume(self) -> None:
        """Let connections be made again."""
        self._disconnected_by = None

    def close(self) -> None:
        """Close the unused sockets."""
        self._is_closed = True
        while self._prepared:
            self._prepared.popitem()[1].close()
        for pool in self._pools.values():
            while pool:
                pool.pop().close()

    async def _connect(self, family: int, port: int) -> socket.socket:
        sock = await self._take(family)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                loop = asyncio.get_running_loop()
                await loop.sock_connect(sock, (_HOSTS[family], port))
        except BaseException:
            sock.close()
            raise
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._note(sock)

    async def _connect_kept(self, port: int) -> socket.socket:
        try:
            sock = await self._ask_keeper(ops.CONNECT, port)
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                raise UnavailableError("port is not open") from error
            raise UnavailableError(f"port {port} does not answer") from error
        return self._note(sock)

    def _note(self, sock: socket.socket) -> socket.socket:
        """Keep a new connection for ``disconnect``, which may have been called meanwhile."""
        if self._disconnected_by is not None:
            sock.close()
            raise self._disconnected_by
        self._connected.add(sock)
        return sock

    async def _ask_keeper(self, op: str, port: int) -> socket.socket:
        """Raises ``OSError`` when the keeper refuses."""
        reply = await self._agent.call(op, port=port)
        is_kind = descriptors.is_unix_stream if op == ops.CONNECT else descriptors.is_unix_packets
        fd, answer = descriptors.take(reply.fds, is_kind, descriptors.is_pipe)
        sock = _socket(fd)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await wait_readable(answer)
            said = os.read(answer, _LONGEST_ANSWER)
            if said != _DONE:
                code = int(said[1:]) if said[1:].isdigit() else errno.ECONNABORTED
                raise OSError(code, os.strerror(code))
        except BaseException:
            sock.close()
            raise
        finally:
            os.close(answer)
        return sock

    async def _take(self, family: int) -> socket.socket:
        pool = self._pools[family]
        async with self._locks[family]:
            if not pool:
                await self._refill(family)
            return pool.pop()

    async def _refill(self, family: int) -> None:
        count = _POOL_SIZE if family == 4 else _POOL_SIZE_V6
        reply = await self._agent.call(ops.SOCKETS, count=count, family=family)
        fds = descriptors.take(reply.fds, *[descriptors.is_tcp_socket] * count)
        if self._is_closed:
            descriptors.close_all(fds)
            raise UnavailableError("the sandbox is not running any more")
        self._pools[family].extend(_socket(fd) for fd in fds)


async def _read_end(sock: socket.socket) -> bytes:
    """Read up to the end, or up to ``_LONGEST_TABLE`` bytes. Raises ``OSError``."""
    read = bytearray()
    loop = asyncio.get_running_loop()
    while len(read) < _LONGEST_TABLE and (chunk := await loop.sock_recv(sock, _CHUNK)):
        read += chunk
    return bytes(read)


def _socket(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)  # the Python object has its own mode, besides the descriptor's
    return sock
