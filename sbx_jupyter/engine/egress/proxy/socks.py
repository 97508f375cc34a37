"""Serves SOCKS5 to a sandbox: CONNECT to a name or address, without a login (RFC 1928)."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.proxy.protocol import is_host
from sbx_jupyter.engine.egress.proxy.relay import GREETING_TIMEOUT, relay
from sbx_jupyter.errors import DeadlineExceededError, PermissionDeniedError, SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.proxy.dialer import Stream
    from sbx_jupyter.engine.egress.proxy.protocol import Proxy

VERSION: Final = b"\x05"

_CONNECT: Final = 1
_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4

_SUCCEEDED: Final = 0
_NOT_ALLOWED: Final = 2
_UNREACHABLE: Final = 4
_COMMAND_UNKNOWN: Final = 7
_ADDRESS_UNKNOWN: Final = 8


async def serve(proxy: Proxy, inside: Stream) -> None:
    """Serve one connection whose version byte has been read."""
    reader, writer = inside
    async with asyncio.timeout(GREETING_TIMEOUT):
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        if 0 not in methods:
            writer.write(VERSION + b"\xff")
            return
        writer.write(VERSION + b"\x00")
        target = await _read_request(inside)
    if target is None:
        return
    host, port = target
    try:
        outside, _ = await proxy.open_tunnel(host, port)
    except SbxError as error:
        proxy.refused(f"{host}:{port}", error.message)
        _answer(writer, _reply_for(error))
        return
    _answer(writer, _SUCCEEDED)
    await relay(inside, outside)


async def _read_request(inside: Stream) -> tuple[str, int] | None:
    reader, writer = inside
    _, command, _, kind = await reader.readexactly(4)
    if kind == _IPV4:
        host = str(ipaddress.IPv4Address(await reader.readexactly(4)))
    elif kind == _IPV6:
        host = str(ipaddress.IPv6Address(await reader.readexactly(16)))
    elif kind == _NAME:
        raw = await reader.readexactly((await reader.readexactly(1))[0])
        host = raw.decode("ascii", "replace")
    else:
        _answer(writer, _ADDRESS_UNKNOWN)
        return None
    port = int.from_bytes(await reader.readexactly(2))
    if not is_host(host):
        _answer(writer, _ADDRESS_UNKNOWN)
        return None
    if command != _CONNECT:
        _answer(writer, _COMMAND_UNKNOWN)
        return None
    return host, port


def _answer(writer: asyncio.StreamWriter, status: int) -> None:
    writer.write(bytes([5, status, 0, _IPV4, 0, 0, 0, 0, 0, 0]))


def _reply_for(error: SbxError) -> int:
    if isinstance(error, PermissionDeniedError):
        return _NOT_ALLOWED
    return 6 if isinstance(error, DeadlineExceededError) else _UNREACHABLE
