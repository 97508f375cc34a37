"""Passes a WebSocket on: the handshake with changed headers, then bytes as they come."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import DeadlineExceededError, UnavailableError
from sbx_jupyter.server.ports.headers import HOP_BY_HOP
from sbx_jupyter.server.ports.upstream import CONNECT_SECONDS
from sbx_jupyter.server.ports.wire import CHUNK, MAX_HEAD

if TYPE_CHECKING:
    from tornado.iostream import IOStream

    from sbx_jupyter.server.ports.upstream import Upstream

MAX_ERROR: Final = 64 * 1024

HANDSHAKE_SECONDS: Final = 60.0
"""Seconds in which a program answers a handshake; one that never does would hold connections."""


@dataclass(slots=True)
class Handshake:
    """The answer to a handshake: its status and headers, and for 101 the open connection."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        self.writer.close()


async def shake_hands(upstream: Upstream, target: str, headers: list[tuple[str, str]]) -> Handshake:
    """Send a handshake to a port of a sandbox and read the answer to it.

    Raises ``UnavailableError`` when the deployment does not answer, or not in HTTP, and
    ``DeadlineExceededError`` when the program takes longer than ``HANDSHAKE_SECONDS``.
    """
    host, port, context = upstream.endpoint()
    netloc = urlsplit(upstream.url).netloc
    all_headers = [*upstream.routing(), *headers]
    if upstream.host is None:
        all_headers.append(("Host", netloc))
    head = f"GET {target} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in all_headers)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=MAX_HEAD)
    except (OSError, TimeoutError) as error:
        raise UnavailableError(f"cannot connect to {netloc}: {error}") from error
    try:
        writer.write(f"{head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode("latin-1"))
        return await _read_answer(reader, writer)
    except BaseException:
        # ``close`` would wait until the other side has read what was sent.
        writer.transport.abort()
        raise


async def _read_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Handshake:
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            raw = await reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")
        status = int(first.split(" ", 2)[1])
        headers: list[tuple[str, str]] = []
        for line in filter(None, lines):
            name, _, value = line.partition(":")
            headers.append((name.strip(), value.strip()))
        body = b"" if status == 101 else await _read_error(reader, headers)
    except TimeoutError:
        raise DeadlineExceededError(
            f"the program did not answer the handshake within {HANDSHAKE_SECONDS:g} seconds"
        ) from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise UnavailableError(f"no answer to the handshake: {error}") from error
    except (ValueError, IndexError):
        raise UnavailableError("the answer to the handshake is not HTTP") from None
    return Handshake(status, headers, body, reader, writer)


async def _read_error(reader: asyncio.StreamReader, headers: list[tuple[str, str]]) -> bytes:
    """Read the start of a refusal, whose framing does not matter: the connection is closed."""
    sizes = [value for name, value in headers if name.lower() == "content-length"]
    size = int(sizes[0]) if sizes else MAX_ERROR
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_SECONDS):
            return await reader.read(min(size, MAX_ERROR)) if size else b""
    return b""


async def run_tunnel(browser: IOStream, shaken: Handshake) -> None:
    """Answer the browser's handshake and copy both ways until either side closes."""
    kept = [(name, value) for name, value in shaken.headers if _is_handshake(name)]
    head = "".join(f"{name}: {value}\r\n" for name, value in kept)
    start = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    copiers: list[asyncio.Task[None]] = []
    try:
        await browser.write(f"{start}{head}\r\n".encode("latin-1"))
        copiers = [
            asyncio.create_task(_to_sandbox(browser, shaken.writer)),
            asyncio.create_task(_to_browser(shaken.reader, browser)),
        ]
        await asyncio.wait(copiers, return_when=asyncio.FIRST_COMPLETED)
    except StreamClosedError:
        return
    finally:
        for copier in copiers:
            copier.cancel()
        await asyncio.gather(*copiers, return_exceptions=True)
        shaken.close()
        browser.close()


def _is_handshake(name: str) -> bool:
    return name.lower() not in HOP_BY_HOP and name.lower().startswith("sec-websocket-")


async def _to_sandbox(browser: IOStream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(StreamClosedError, OSError):
        while True:
            writer.write(await browser.read_bytes(CHUNK, partial=True))
            await writer.drain()


async def _to_browser(reader: asyncio.StreamReader, browser: IOStream) -> None:
    with contextlib.suppress(StreamClosedError, OSError):
        while chunk := await reader.read(CHUNK):
            await browser.write(chunk)
