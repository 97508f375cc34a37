"""What the channels of a kernel do with what a hostile guest sends."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import zmq
import zmq.asyncio

from sbx_jupyter.kernel.drawing import PageDrawing
from sbx_jupyter.kernel.guest.frames import CHANNELS, pack
from sbx_jupyter.kernel.messages import DELIMITER, Signer
from sbx_jupyter.kernel.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

THEIRS = Signer(b"theirs")
UPDATE = {"comm_id": "a", "data": {"method": "update"}}
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def connection(tmp_path: Path) -> dict[str, Any]:
    ports = {f"{name}_port": number for number, name in enumerate(CHANNELS, 1)}
    return {"ip": str(tmp_path / "k"), "key": b"ours", **ports}


@pytest.fixture
async def relay(connection: dict[str, Any]) -> AsyncIterator[Relay]:
    drawing = PageDrawing()
    drawing.allow("a-mark-of-one-page", 60)
    relay = Relay(connection, b"theirs", drawing)
    yield relay
    await relay.aclose()


def message(kind: str, content: Any) -> list[bytes]:
    parts = [json.dumps(part).encode() for part in ({"msg_type": kind}, {}, {}, content)]
    return [kind.encode(), DELIMITER, THEIRS.sign(parts), *parts]


@pytest.mark.parametrize(
    ("channel", "frames"),
    [
        ("hb", []),
        ("shell", []),
        ("iopub", [b""] * 1000),
        ("iopub", [*message("comm_msg", UPDATE), *[b""] * 20_000]),
        ("hb", [b""] * 20_000),
        ("hb", [b""] * 1000),
        ("hb", [b"x" * 5000]),
        ("control", [b"<IDS|MSG>"] * 9),
        ("stdin", [b"x" * 300, *message("input_request", {"prompt": "?"})]),
        ("iopub", message("display_data", {"data": {WIDGET: {"model_id": [1]}}})),
        ("iopub", message("display_data", {"data": {WIDGET: {"model_id": {}}}})),
        ("iopub", message("stream", {"text": {"a": [None]}})),
    ],
)
async def test_no_message_of_a_guest_ends_the_channels(
    relay: Relay, connection: dict[str, Any], channel: str, frames: list[bytes]
):
    with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as page:
        page.linger = 0
        page.subscribe(b"")
        page.connect(f"ipc://{connection['ip']}-{connection['iopub_port']}")
        # Sent again until the subscription has arrived.
        while not await page.poll(20):
            await relay.say("ready")

        await relay._receive(pack(CHANNELS.index(channel), frames))

        said = message("stream", {"name": "stdout", "text": "the next one"})
        await relay._receive(pack(CHANNELS.index("iopub"), said))
        found = b""
        while b"the next one" not in found:
            found = b"".join(await page.recv_multipart())


@pytest.mark.long
async def test_a_message_of_very_many_frames_takes_no_time(relay: Relay):
    frames = [*message("comm_msg", UPDATE), *[b""] * 4_000_000]
    raw = pack(CHANNELS.index("iopub"), frames)
    begun = time.process_time()

    await relay._receive(raw)

    assert relay.dropped == 1
    assert time.process_time() - begun < 0.5


async def test_buffers_without_bytes_count_for_the_rate(relay: Relay):
    frames = [*message("comm_msg", UPDATE), *[b""] * 1000]
    checked = relay._checked("iopub", frames)[0]

    passed = sum(len(list(relay._limited(checked))) for _ in range(1000))

    assert 0 < passed < 200


async def test_a_kernel_waits_as_long_as_its_messages_took_to_check(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
):
    def slow(*_: object) -> None:
        time.sleep(1)  # long enough for the others to have their turns on a busy machine too

    monkeypatch.setattr("sbx_jupyter.kernel.relay.from_guest", slow)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    going_on = asyncio.create_task(others())
    begun = time.monotonic()
    await relay._receive(pack(CHANNELS.index("shell"), message("execute_reply", {"a": "x" * 5000})))
    going_on.cancel()

    assert time.monotonic() - begun >= 2
    assert turns > 10


async def test_what_cannot_be_checked_is_left_out_and_told_once(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object) -> None:
        raise TypeError("nobody thought of this")

    monkeypatch.setattr("sbx_jupyter.kernel.relay.from_guest", fail)
    for _ in range(3):
        await relay._receive(pack(CHANNELS.index("shell"), message("execute_reply", {})))
    assert relay.dropped == 3
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


async def test_a_request_whose_end_is_lost_ends(
    relay: Relay, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sbx_jupyter.kernel.unfinished.SILENCE", 0.0)
    request = {"msg_id": "cell", "msg_type": "execute_request"}
    with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as page:
        page.linger = 0
        page.subscribe(b"")
        page.connect(f"ipc://{connection['ip']}-{connection['iopub_port']}")
        while not await page.poll(20):
            await relay.say("ready")
        ending = asyncio.create_task(relay._end_requests())

        reply = [json.dumps(p).encode() for p in ({"msg_type": "execute_reply"}, request, {}, {})]
        frames = [b"guest", DELIMITER, THEIRS.sign(reply), *reply]
        await relay._receive(pack(CHANNELS.index("shell"), frames))

        said: list[list[bytes]] = []
        while not said or b"idle" not in said[-1][-1]:
            said.append(await page.recv_multipart())
        assert [json.loads(frames[-3]) for frames in said[-2:]] == [request] * 2
        assert b"is lost" in said[-2][-1]
        ending.cancel()
