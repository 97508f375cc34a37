"""Attacks on what carries connections: the proxy inside a sandbox, and the gateway to its ports."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from tests.security.attacks import NAMESPACES
from tests.security.attempts import (
    Attempt,
    Exhaustion,
    engine_stays_small,
    log_is_short,
    printed,
    python,
)
from tests.waiting import async_until

_CLIENTS = 1000
_AT_ONCE = 512
"""What the gateway carries to one sandbox at once."""

_MANY = """
import asyncio, socket, time
made = 0
async def flood(words):
    global made
    kept = []
    end = time.monotonic() + 8
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection("127.0.0.1", 49982), 0.5)
            made += 1
            if words:
                writer.write(words)
                await asyncio.wait_for(reader.read(10), 0.5)
                writer.close()
            else:
                kept.append(writer)
                if len(kept) > 100: kept.pop(0).close()
        except (OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.001)
async def main():
    words = [b"", b"CONNECT 10.0.0.1:1 HTTP/1.1\\r\\n\\r\\n", b"\\x05\\x01\\x00",
             b"CONNECT no.such.name.invalid:1 HTTP/1.1\\r\\n\\r\\n", b"GET http://127.0.0.1/"]
    await asyncio.gather(*(flood(words[i % len(words)]) for i in range(60)))
asyncio.run(main())
print("made", made)
"""
_SILENT = """
import socket, time
server = socket.create_server(("127.0.0.1", 8000), backlog=4096)
kept = []
print("serves", flush=True)
try:
    while True: kept.append(server.accept())
except OSError: time.sleep(120)
"""
"""It must not end when no more files may be open: the connections that remain stay queued."""


async def _many_were_opened(attempt: Attempt) -> None:
    assert int(attempt.said.split()[1]) > 100, attempt.said


@contextlib.asynccontextmanager
async def _clients_of_its_port(attempt: Attempt) -> AsyncIterator[None]:
    server = await attempt.victim.commands.run(python(_SILENT), background=True, timeout=120)
    # Before it listens, every client is refused for that reason.
    await async_until(lambda: "serves" in server.stdout)
    head = (
        "GET / HTTP/1.1\r\nHost: localhost\r\n"
        f"E2b-Sandbox-Id: {attempt.victim.sandbox_id}\r\nE2b-Sandbox-Port: 8000\r\n\r\n"
    ).encode()
    with _many_descriptors():
        streams = await asyncio.gather(*(_ask(attempt.siege.port, head) for _ in range(_CLIENTS)))
        answers = [asyncio.ensure_future(_status(reader)) for reader, _ in streams]
        try:
            too_many = _CLIENTS - _AT_ONCE
            await async_until(lambda: sum(answer.done() for answer in answers) >= too_many)
            statuses = Counter(answer.result() for answer in answers if answer.done())
        finally:
            for answer in answers:
                answer.cancel()
            for _, writer in streams:
                writer.close()
    attempt.notes.append(f"{_CLIENTS - statuses.total()} wait, {statuses[b'429']} were refused")
    assert statuses == {b"429": too_many}, statuses
    yield


@contextlib.contextmanager
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _ask(port: int, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    await writer.drain()
    return reader, writer


async def _status(reader: asyncio.StreamReader) -> bytes:
    return (await reader.readline())[9:12]


ATTACKS = [
    Exhaustion(
        "connections",
        "to the proxy, without end",
        _MANY,
        holds=(printed("made "), _many_were_opened, engine_stays_small, log_is_short(99)),
        seconds=40,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "connections",
        "1,000 clients of a port that never answers",
        holds=(engine_stays_small,),
        outside=_clients_of_its_port,
        tiers=NAMESPACES,
    ),
]
