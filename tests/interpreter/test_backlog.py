"""What is kept of a kernel that speaks faster than a client reads."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from sbx_jupyter.interpreter import backlog, events
from sbx_jupyter.interpreter.backlog import Backlog

HEADER = {"date": "2026-01-01"}
DELIMITER = b"<IDS|MSG>"
IDLE = {"msg_type": "status", "header": HEADER, "content": {"execution_state": "idle"}}


def printed(text: str) -> dict[str, Any]:
    content = {"name": "stdout", "text": text}
    return {"msg_type": "stream", "header": HEADER, "content": content}


def shown(text: str) -> dict[str, Any]:
    return {"msg_type": "display_data", "header": HEADER, "content": {"data": {"text/plain": text}}}


def frames(message: dict[str, Any]) -> list[bytes]:
    header = {"msg_type": message["msg_type"]}
    parts = (header, {}, message["header"], message["content"])
    return [DELIMITER, b"signature", *(json.dumps(part).encode() for part in parts)]


def decoded(raw: list[bytes]) -> dict[str, Any] | None:
    if raw[1] != b"signature":
        return None
    header, _, own, content = map(json.loads, raw[2:])
    return {**header, "header": own, "content": content}


async def taken(kept: Backlog) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while kept:
        messages.append(await kept.take())
    return messages


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Backlog:
    monkeypatch.setattr(backlog, "MAX_SIZE", 10_000)
    monkeypatch.setattr(backlog, "MAX_TAIL", 100)
    return Backlog(decoded)


async def test_what_has_room_comes_as_it_is(kept: Backlog):
    said = [printed("a"), shown("b"), IDLE]
    for message in said:
        kept.add(frames(message))

    assert await taken(kept) == said


async def test_the_middle_of_a_flood_is_cut_and_told(kept: Backlog):
    for number in range(1000):
        kept.add(frames(printed(f"{number:09}\n" * 100)))
        kept.add(frames(shown("x")))
    kept.add(frames(IDLE))

    messages = await taken(kept)
    assert messages[0] == printed("000000000\n" * 100)
    texts = [m["content"]["text"] for m in messages if m["msg_type"] == "stream"]
    [at] = [at for at, text in enumerate(texts) if "[cut: " in text]
    results = 1000 - sum(message["msg_type"] == "display_data" for message in messages)
    cut = 1_000_000 - sum(len(text) for text in texts if "[cut: " not in text)
    told = re.search(r"\[cut: (\S+) MB of output and (\d+) results", texts[at])
    assert told is not None
    assert cut <= float(told[1]) * 1e6 < 1.2 * cut  # the ends of lines are escaped
    assert int(told[2]) == results
    assert "".join(texts[at + 1 :]) == "000000999\n" * 10
    assert messages[-1] == IDLE


async def test_after_a_gap_it_goes_on(kept: Backlog):
    for _ in range(2):
        for _ in range(100):
            kept.add(frames(printed("x" * 1000)))
        assert sum("[cut: " in m["content"]["text"] for m in await taken(kept)) == 1

    kept.add(frames(printed("the next")))
    assert await taken(kept) == [printed("the next")]


async def test_a_client_that_waits_gets_what_comes(kept: Backlog):
    waiting = asyncio.ensure_future(kept.take())
    await asyncio.sleep(0)
    kept.add(frames(IDLE))

    assert await waiting == IDLE


async def test_after_the_last_message_of_a_kernel_that_died_comes_none(kept: Backlog):
    kept.add(frames(IDLE))
    kept.close()

    assert await kept.take() == IDLE
    with pytest.raises(EOFError):
        await kept.take()


async def test_who_waits_hears_of_the_death_of_the_kernel(kept: Backlog):
    waiting = asyncio.ensure_future(kept.take())
    await asyncio.sleep(0)
    kept.close()

    with pytest.raises(EOFError):
        await waiting


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", []),
        ("stream", {"name": "stdout", "text": {"a": 1}}),
        ("display_data", {"data": [1]}),
        ("error", {"ename": "E", "evalue": 1, "traceback": []}),
        ("error", {"ename": "E", "evalue": "x", "traceback": None}),
        ("status", {"execution_state": {}}),
        ("execute_input", {"execution_count": "1"}),
    ],
)
def test_malformed_messages_are_known(kind: str, content: object):
    assert not events.is_sound({"msg_type": kind, "content": content})
    for message in (printed("a"), shown("b"), IDLE):
        assert events.is_sound(message)


async def test_frames_that_are_no_message_are_refused_or_skipped(kept: Backlog):
    for wrong in ([], [b"x"], [DELIMITER], [DELIMITER, b"", b"{}"]):
        with pytest.raises(ValueError, match="not "):
            kept.add(wrong)
    kept.add([DELIMITER, b"forged", b"{}", b"{}", b"{}", b"{}"])
    kept.add(frames(IDLE))

    assert await kept.take() == IDLE
