"""The channel against peers that answer, lie, flood and vanish."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, UnavailableError
from sbx_jupyter.isolation.channel import Channel
from sbx_jupyter.protocol.agent import INLINE_LIMIT, MAX_DESCRIPTORS
from tests.waiting import PATIENCE, async_until

NEVER = 1000.0
"""Seconds until a call ends by itself: later than any test waits, so that it was ended before."""

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Peer:
    """A channel and the other end of its socket."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.setblocking(True)
        self.events: list[tuple[dict[str, Any], list[int]]] = []
        self.closes = 0
        self.channel = Channel(
            ours, on_event=lambda body, fds: self.events.append((body, fds)), on_close=self._closed
        )

    def _closed(self) -> None:
        self.closes += 1

    async def take(self) -> tuple[dict[str, Any], list[int]]:
        """The next request."""
        message = await asyncio.to_thread(wire.receive, self.sock)
        assert message is not None
        return message


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    peer.channel.close()
    peer.sock.close()


@pytest.fixture(autouse=True)
def no_descriptor_leaks() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    # The thread pool and the loop of the test may still hold theirs; a leak below is much larger.
    assert len(os.listdir("/proc/self/fd")) - before < 12


async def test_an_answer_carries_descriptors(peer: Peer) -> None:
    call = asyncio.create_task(peer.channel.call("open", path="/x"))
    body, _ = await peer.take()
    assert body == {"id": 1, "op": "open", "path": "/x"}
    reading, writing = os.pipe()
    wire.send(peer.sock, {"id": 1, "ok": {"size": 3}}, [reading])
    os.close(reading)
    reply = await call
    os.write(writing, b"abc")
    assert os.read(reply.fds[0], 9) == b"abc"
    assert reply.body == {"size": 3}
    os.close(reply.fds[0])
    os.close(writing)


async def test_large_messages_travel_both_ways(peer: Peer) -> None:
    text = "ä" * (3 * INLINE_LIMIT)
    call = asyncio.create_task(peer.channel.call("echo", text=text))
    body, fds = await peer.take()
    assert body["text"] == text
    assert fds == []
    wire.send(peer.sock, {"id": body["id"], "ok": {"text": text}})
    assert (await call).body["text"] == text


async def test_names_that_are_not_utf8_survive(peer: Peer) -> None:
    name = os.fsdecode(b"\xff\xfe")
    call = asyncio.create_task(peer.channel.call("stat", path=name))
    body, _ = await peer.take()
    assert body["path"] == name
    wire.send(peer.sock, {"id": 1, "ok": {}})
    await call


async def test_a_failure_becomes_the_error_of_its_code(peer: Peer) -> None:
    call = asyncio.create_task(peer.channel.call("stat"))
    await peer.take()
    wire.send(peer.sock, {"id": 1, "error": {"code": "not_found", "message": "no such path"}})
    with pytest.raises(NotFoundError, match="no such path"):
        await call


async def test_a_peer_that_goes_away_fails_every_call_once(peer: Peer) -> None:
    calls = [asyncio.create_task(peer.channel.call("wait")) for _ in range(3)]
    await asyncio.sleep(0)
    peer.sock.close()
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, UnavailableError)
    with pytest.raises(UnavailableError):
        await peer.channel.call("late")
    assert peer.closes == 1


async def test_a_silent_peer_times_out_and_its_late_descriptors_are_closed(peer: Peer) -> None:
    with pytest.raises(UnavailableError, match="no answer within"):
        await peer.channel.call("wait", timeout=0.01)
    reading, writing = os.pipe()
    wire.send(peer.sock, {"id": 1, "ok": {}}, [reading])
    os.close(reading)
    call = asyncio.create_task(peer.channel.call("next"))
    await async_until(lambda: _is_broken(writing))
    os.close(writing)
    call.cancel()


def _is_broken(pipe: int) -> bool:
    try:
        os.write(pipe, b"x")
    except BrokenPipeError:
        return True
    return False


async def test_events_are_delivered_in_order(peer: Peer) -> None:
    for number in range(100):
        wire.send(peer.sock, {"event": "exit", "pid": number})
    await async_until(lambda: len(peer.events) >= 100)
    assert [body["pid"] for body, _ in peer.events] == list(range(100))


@pytest.mark.parametrize(
    "datagram",
    [b"not json", b"[]", b"1", b"[" * 20000, b'{"memfd":10}', b'{"memfd":-1}', b"\xff\xfe",
     b"{" + b" " * INLINE_LIMIT + b"}"],
)  # fmt: skip
async def test_a_peer_that_breaks_the_framing_loses_the_channel(
    peer: Peer, datagram: bytes
) -> None:
    call = asyncio.create_task(peer.channel.call("x"))
    await peer.take()
    peer.sock.send(datagram)
    with pytest.raises(UnavailableError):
        await call
    assert peer.channel.closed


async def test_a_memfd_must_be_sealed_and_of_its_size(peer: Peer) -> None:
    call = asyncio.create_task(peer.channel.call("x"))
    await peer.take()
    memfd = os.memfd_create("m")
    os.write(memfd, b'{"id":1,"ok":{}}')
    peer.sock.sendmsg([b'{"memfd":16}'], wire.rights([memfd]))
    os.close(memfd)
    with pytest.raises(UnavailableError):
        await call


async def test_a_pipe_instead_of_a_memfd_does_not_block_the_loop(peer: Peer) -> None:
    call = asyncio.create_task(peer.channel.call("x", timeout=NEVER))
    await peer.take()
    reading, writing = os.pipe()
    peer.sock.sendmsg([b'{"memfd":16}'], wire.rights([reading]))
    os.close(reading)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(UnavailableError):
            await call
    os.close(writing)


async def test_too_many_descriptors_are_refused(peer: Peer) -> None:
    call = asyncio.create_task(peer.channel.call("x"))
    await peer.take()
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(MAX_DESCRIPTORS + 5)]
    before = len(os.listdir("/proc/self/fd"))
    peer.sock.sendmsg([b'{"id":1,"ok":{}}'], wire.rights(fds))
    with pytest.raises(UnavailableError):
        await call
    assert len(os.listdir("/proc/self/fd")) <= before
    for fd in fds:
        os.close(fd)


async def test_a_peer_that_does_not_read_cannot_fill_the_memory(peer: Peer) -> None:
    calls = [asyncio.create_task(peer.channel.call("x", n=n, timeout=NEVER)) for n in range(3000)]
    await async_until(lambda: sum(call.done() for call in calls) >= 1500)
    refused = [call for call in calls if call.done()]
    assert all(isinstance(call.exception(), UnavailableError) for call in refused)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_queued_requests_keep_their_descriptors_and_order(peer: Peer) -> None:
    reading, writing = os.pipe()
    calls = [asyncio.create_task(peer.channel.call("x", n=n, fds=[reading])) for n in range(600)]
    await async_until(lambda: len(peer.channel._waiting) == len(calls))
    os.close(reading)
    for n in range(600):
        body, fds = await peer.take()
        assert body["n"] == n
        assert len(fds) == 1
        wire.close_all(fds)
        wire.send(peer.sock, {"id": body["id"], "ok": {}})
        if n % 50 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*calls)
    os.close(writing)


async def test_a_message_that_is_too_large_is_the_callers_fault(peer: Peer) -> None:
    with pytest.raises(InvalidArgumentError):
        await peer.channel.call("x", text="a" * (64 << 20))
