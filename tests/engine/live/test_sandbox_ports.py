"""Connections between the engine and ports inside a sandbox (interface 2.1)."""

import asyncio
import os
import socket
import time

import pytest

from sbx_jupyter.engine.live.ports import Ports
from sbx_jupyter.engine.live.subscriptions import DisconnectedError
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.channel import Reply
from sbx_jupyter.protocol.runtime import PROXY_PORT
from tests.engine.live.running import bash, count_descriptors, listen_until

_SERVE = """exec python3 -c "
import socket
server = socket.create_server(('{host}', 0), family=socket.{family}, backlog=64)
print(server.getsockname()[1], flush=True)
while True:
    peer = server.accept()[0]
    peer.sendall(b'hello')
    peer.close()
" """


async def _serve(sandbox, host: str = "127.0.0.1", family: str = "AF_INET") -> int:
    script = _SERVE.format(host=host, family=family)
    subscription = (await sandbox.processes.start(bash(script))).subscribe()
    return int(await listen_until(subscription, b"\n"))


async def _read(sock) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(sock, 100)
    finally:
        sock.close()


async def test_a_listening_port_can_be_connected_to(sandbox):
    port = await _serve(sandbox)

    sock = await sandbox.connect_port(port)

    assert sock.getblocking() is False
    assert await _read(sock) == b"hello"


async def test_a_port_that_listens_on_ipv6_alone_is_found_too(sandbox):
    port = await _serve(sandbox, "::1", "AF_INET6")

    assert await _read(await sandbox.connect_port(port)) == b"hello"


async def test_nobody_waits_for_a_port_of_a_paused_sandbox(sandbox):
    port = await _serve(sandbox)
    sandbox.disconnect()

    with pytest.raises(DisconnectedError):
        await sandbox.connect_port(port)

    sandbox.resume()
    assert await _read(await sandbox.connect_port(port)) == b"hello"


async def test_more_connections_than_the_pool_has_sockets(sandbox):
    port = await _serve(sandbox)

    sockets = await asyncio.gather(*(sandbox.connect_port(port) for _ in range(50)))

    assert await asyncio.gather(*(_read(sock) for sock in sockets)) == [b"hello"] * 50


async def test_a_closed_port_is_refused_quickly_and_leaks_nothing(sandbox):
    with pytest.raises(UnavailableError, match="port is not open"):
        await sandbox.connect_port(9)
    before, started = count_descriptors(), time.monotonic()

    for _ in range(12):
        with pytest.raises(UnavailableError, match="port is not open"):
            await sandbox.connect_port(9)

    # Sockets come in packs of 16 and 4, so their number goes down and up again.
    assert count_descriptors() <= before + 16
    assert time.monotonic() - started < 5  # not by a time limit, which takes longer


async def test_a_port_inside_can_be_served_from_outside(sandbox):
    listener = await sandbox.listen_port(0)
    port = listener.port
    loop = asyncio.get_running_loop()

    script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo question >&3; cat <&3"
    process = await sandbox.processes.start(bash(script))
    connection = await listener.accept()
    assert await loop.sock_recv(connection, 100) == b"question\n"
    await loop.sock_sendall(connection, b"answer")
    connection.close()
    listener.close()

    assert await listen_until(process.subscribe(), b"answer") == b"answer"


async def test_a_prepared_port_is_given_out_once_and_without_a_call(sandbox, monkeypatch):
    port = 4711
    await sandbox.prepare_port(port)
    with monkeypatch.context() as patched:
        patched.setattr(sandbox, "call", None)  # any call would fail
        listener = await sandbox.listen_port(port)

    assert listener.port == port
    (await sandbox.connect_port(port)).close()
    (await listener.accept()).close()
    listener.close()
    (await sandbox.listen_port(port)).close()


async def test_a_prepared_port_is_closed_with_the_sandbox(sandbox):
    before = count_descriptors()
    await sandbox.prepare_port(4711)

    await sandbox.aclose()

    assert count_descriptors() < before
    with pytest.raises(UnavailableError):
        await sandbox.prepare_port(4712)


async def test_a_port_that_opens_while_the_sandbox_closes_is_closed_too(sandbox, monkeypatch):
    ports = sandbox._ports
    real = ports.listen

    async def listen_late(port: int):
        listener = await real(port)
        opened.append(listener)
        await sandbox.aclose()
        return listener

    opened = []
    monkeypatch.setattr(ports, "listen", listen_late)

    with pytest.raises(UnavailableError):
        await sandbox.prepare_port(4711)

    assert opened[0]._sock.fileno() == -1


async def test_no_connection_after_the_sandbox_was_closed(sandbox):
    port = await _serve(sandbox)
    (await sandbox.connect_port(port)).close()

    await sandbox.aclose()

    with pytest.raises(UnavailableError):
        await sandbox.connect_port(port)


class _EndedSandbox:
    """An agent whose keeper ends before it answers."""

    async def call(self, op: str, **_: object) -> Reply:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        answer, end = os.pipe()
        os.close(end)
        return Reply(b"{}", [ours.detach(), answer])


async def test_a_keeper_that_ends_while_a_port_is_asked_for_is_an_ended_sandbox():
    """The creation of the sandbox was answered with "internal error"."""
    ports = Ports(_EndedSandbox())
    ports.are_kept = True
    before = count_descriptors()

    with pytest.raises(UnavailableError):
        await ports.listen(PROXY_PORT)

    assert count_descriptors() == before
