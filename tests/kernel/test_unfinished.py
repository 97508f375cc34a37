"""The end of a request whose last messages a kernel lost."""

from __future__ import annotations

import asyncio
import json

import pytest

from sbx_jupyter.kernel import unfinished
from sbx_jupyter.kernel.unfinished import Unfinished

REQUEST = json.dumps({"msg_id": "cell", "msg_type": "execute_request"}).encode()
REPLY = json.dumps({"msg_type": "execute_reply"}).encode()
IDLE, BUSY = (json.dumps({"execution_state": state}).encode() for state in ("idle", "busy"))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "SILENCE", 0.0)


async def is_overdue(watched: Unfinished) -> bool:
    waiting = asyncio.ensure_future(watched.overdue())
    for _ in range(20):
        await asyncio.sleep(0)
    waiting.cancel()
    return waiting.done() and not waiting.cancelled() and waiting.result() == [REQUEST]


async def test_a_reply_without_idle_is_overdue_once():
    watched = Unfinished()
    watched.heard(REQUEST, BUSY, is_status=True)
    watched.replied(REPLY, REQUEST)

    assert await is_overdue(watched)
    assert not await is_overdue(watched)


@pytest.mark.parametrize("first", ["reply", "idle"])
async def test_idle_before_or_after_the_reply_is_the_end(first: str):
    watched = Unfinished()
    if first == "idle":
        watched.heard(REQUEST, IDLE, is_status=True)
    watched.replied(REPLY, REQUEST)
    if first == "reply":
        watched.heard(REQUEST, IDLE, is_status=True)

    assert not await is_overdue(watched)


async def test_silence_counts_from_the_last_message_and_only_while_connected():
    now = 0.0
    watched = Unfinished(lambda: now)
    watched.replied(REPLY, REQUEST)
    now = 3.0
    watched.heard(REQUEST, b"{}", is_status=False)
    assert watched._due["cell"] == (3.0, REQUEST)

    watched.suspend()
    assert not await is_overdue(watched)
    now = 9.0
    watched.resume()
    assert watched._due["cell"] == (9.0, REQUEST)
    assert await is_overdue(watched)


async def test_replies_to_other_requests_and_forged_headers_are_ignored():
    watched = Unfinished()
    watched.replied(b'{"msg_type": "complete_reply"}', REQUEST)
    watched.heard(b"[" * 10_000, IDLE, is_status=True)

    assert not await is_overdue(watched)
