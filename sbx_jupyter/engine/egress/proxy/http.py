"""Serves HTTP to a sandbox: CONNECT tunnels, and requests in absolute form (RFC 9110)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.engine.egress.proxy.protocol import is_host
from sbx_jupyter.engine.egress.proxy.relay import GREETING_TIMEOUT, relay
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    SbxError,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.proxy.dialer import Stream
    from sbx_jupyter.engine.egress.proxy.protocol import Proxy

MAX_HEAD: Final = 64 * 1024
_END: Final = b"\r\n\r\n"
_HOP_BY_HOP: Final = {b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive"}
_STATUS: Final[dict[type[SbxError], str]] = {
    PermissionDeniedError: "403 Forbidden",
    DeadlineExceededError: "504 Gateway Timeout",
    InvalidArgumentError: "400 Bad Request",
}


async def serve(proxy: Proxy, inside: Stream, first: bytes) -> None:
    """Serve one connection whose first byte has been read."""
    try:
        method, target, head = await _read_head(inside[0], first)
        host, port = _split_target(method, target)
    except SbxError as error:
        _refuse(inside[1], error)
        return
    is_connect = method == b"CONNECT"
    interceptor = proxy.interceptor
    if is_connect and interceptor is not None and interceptor.wants(host):
        await interceptor.serve(proxy, inside, host, port)
        return
    try:
        outside, _ = await proxy.open_tunnel(host, port, keeps_rule=is_connect)
    except SbxError as error:
        proxy.refused(f"{host}:{port}", error.message)
        _refuse(inside[1], error)
        return
    if is_connect:
        inside[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        outside[1].write(_origin_form(method, target, head))
    await relay(inside, outside)


async def _read_head(reader: asyncio.StreamReader, first: bytes) -> tuple[bytes, bytes, bytes]:
    """The method, target and header lines of a request; raises ``InvalidArgumentError``."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT):
            raw = first + await reader.readuntil(_END)
    except asyncio.LimitOverrunError as error:
        raise InvalidArgumentError(f"the request head is larger than {MAX_HEAD} bytes") from error
    line, _, head = raw.partition(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
        raise InvalidArgumentError("this is an HTTP proxy; the request line is not HTTP/1")
    return parts[0], parts[1], head


def _split_target(method: bytes, target: bytes) -> tuple[str, int]:
    try:
        text = target.decode("ascii")
        parts = urlsplit(f"//{text}" if method == b"CONNECT" else text)
        port = parts.port or (443 if method == b"CONNECT" else 80)
    except ValueError as error:
        raise InvalidArgumentError("the target is not a host and port") from error
    if not parts.hostname or (method != b"CONNECT" and parts.scheme != "http"):
        raise InvalidArgumentError("the target is not an http URL; use CONNECT for others")
    if not is_host(parts.hostname):
        raise InvalidArgumentError("the target is not a host and port")
    return parts.hostname, port


def _origin_form(method: bytes, target: bytes, head: bytes) -> bytes:
    """The request in origin form. It closes the connection, which thus keeps one target."""
    parts = urlsplit(target.decode("ascii"))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        line
        for line in head.removesuffix(_END).split(b"\r\n")
        if line.partition(b":")[0].strip().lower() not in _HOP_BY_HOP
    ]
    first = b" ".join([method, path.encode("ascii"), b"HTTP/1.1"])
    return b"\r\n".join([first, *filter(None, lines), b"Connection: close"]) + _END


def _refuse(writer: asyncio.StreamWriter, error: SbxError) -> None:
    status = _STATUS.get(type(error), "502 Bad Gateway")
    body = f"{error.message}\n".encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
