"""What the guest keeps of a kernel's output that its caller has not taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sbx_jupyter.kernel.guest import backlog as kept
from sbx_jupyter.kernel.guest.backlog import Backlog
from sbx_jupyter.kernel.guest.frames import CUT
from sbx_jupyter.kernel.messages import DELIMITER, Signer, from_guest

KEY = b"theirs"
THEIRS, OURS = Signer(KEY), Signer(b"ours")
IDLE = {"execution_state": "idle"}


def message(kind: str, content: dict[str, Any]) -> list[bytes]:
    parts = [
        json.dumps(part).encode() for part in ({"msg_type": kind}, {"msg_id": "r"}, {}, content)
    ]
    return [kind.encode(), DELIMITER, THEIRS.sign(parts), *parts]


def printed(text: str) -> list[bytes]:
    return message("stream", {"name": "stdout", "text": text})


async def taken(backlog: Backlog) -> list[list[bytes]]:
    frames: list[list[bytes]] = []
    while backlog:
        frames.append(await backlog.take())
    return frames


@pytest.fixture
def backlog(monkeypatch: pytest.MonkeyPatch) -> Backlog:
    monkeypatch.setattr(kept, "_MOST_WAITING", 20_000)
    monkeypatch.setattr(kept, "_END", 5_000)
    monkeypatch.setattr(kept, "_TAIL", 100)
    return Backlog(KEY)


async def test_what_has_room_is_passed_on_as_it_is(backlog: Backlog):
    said = [printed("a"), message("comm_open", {}), message("status", IDLE)]
    for frames in said:
        backlog.add(frames)

    assert await taken(backlog) == said


async def test_of_a_flood_the_beginning_the_end_and_idle_are_kept_and_the_rest_is_counted(
    backlog: Backlog,
):
    flood = [printed(f"{number:04}" * 100) for number in range(200)]
    for frames in flood[:100]:
        backlog.add(frames)
    backlog.add(message("status", IDLE))
    for frames in flood[100:]:
        backlog.add(frames)

    found = await taken(backlog)
    kept = [frames for frames in found if frames in flood]
    others = [
        from_guest("iopub", frames, THEIRS, OURS) or [] for frames in found if frames not in flood
    ]
    cut, idle = (OURS.split(frames)[1] for frames in others)
    assert (kept[0], kept[-1]) == (flood[0], flood[-1])
    assert json.loads(idle[3]) == IDLE
    assert json.loads(cut[0])["msg_type"] == CUT
    assert json.loads(cut[1]) == {"msg_id": "r"}
    left = [frames for frames in flood if frames not in kept]
    assert json.loads(cut[3]) == {"size": sum(len(frames[-1]) for frames in left)}


async def test_the_first_message_and_the_end_of_a_long_last_one_are_kept(backlog: Backlog):
    first = printed("z" * 100_000)
    backlog.add(first)
    for _ in range(3):
        backlog.add(printed("y" * 30_000))
    backlog.add(printed("x" * 30_000 + "the end"))
    for number in range(10):
        backlog.add(message("comm_msg", {"comm_id": number}))

    found, cut, text, *_ = await taken(backlog)
    assert found == first
    size, left = json.loads(cut[-1])["size"], json.loads(text[-1])
    assert left == {"name": "stdout", "text": "x" * 93 + "the end"}
    assert 120_000 <= size < 121_000


async def test_nul_bytes_are_counted_as_what_they_are(backlog: Backlog):
    for _ in range(100):
        backlog.add(printed("\0" * 1000))

    [cut] = [
        json.loads(frames[-1])["size"] for frames in await taken(backlog) if CUT in str(frames)
    ]
    assert 70_000 < cut < 104_000


async def test_frames_that_are_no_message_are_left_out(backlog: Backlog):
    for frames in ([], [b"x"], [DELIMITER], [DELIMITER, b"", b"{}"], [b""] * 1000):
        backlog.add(frames)

    assert await taken(backlog) == []
