"""How many clients may follow changes: no owner takes the streams of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sbx_jupyter.engine.owners import Caller
from sbx_jupyter.errors import ResourceExhaustedError
from sbx_jupyter.service import changes
from sbx_jupyter.service.changes import MAX_STREAMS_PER_OWNER, ChangeStreams
from tests.waiting import async_until

if TYPE_CHECKING:
    from sbx_jupyter.engine.engine import Engine

ANN, BOB = (Caller(name, sees_all=False) for name in ("ann", "bob"))


@pytest.fixture
def streams() -> ChangeStreams:
    engine = SimpleNamespace(
        store=SimpleNamespace(listeners=set()), sandboxes=SimpleNamespace(rows=list)
    )
    return ChangeStreams(cast("Engine", engine))


async def test_one_owner_cannot_take_all_streams(streams: ChangeStreams) -> None:
    taken = [streams.add(ANN) for _ in range(MAX_STREAMS_PER_OWNER)]

    with pytest.raises(ResourceExhaustedError, match="of your clients"):
        streams.add(ANN)
    streams.add(BOB)
    streams.remove(taken[0])
    streams.add(ANN)
    streams.close()


async def test_all_streams_together_are_bounded(
    streams: ChangeStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_STREAMS", 2)
    streams.add(ANN)
    streams.add(BOB)

    with pytest.raises(ResourceExhaustedError, match="2 clients"):
        streams.add(Caller("carol"))
    streams.close()


class _Cage:
    """A sandbox's processor time, which counts as that of all."""

    work = 1

    @property
    def together(self) -> tuple[str, _Cage]:
        return "group", self

    def work_ns(self) -> int:
        return self.work

    def tcp_bytes(self) -> int:
        return 0


class _Sandbox:
    """A running sandbox."""

    def __init__(self) -> None:
        self.cage = _Cage()


async def test_ports_are_looked_at_when_a_program_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    rounds: list[int] = []
    live = _Sandbox()
    row = SimpleNamespace(sandbox_id="iaaa", owner="ann")

    async def look(sandbox: object) -> frozenset[int]:
        looks.append(sandbox)
        return frozenset({8000 + len(looks)})

    def find_live(_sandbox_id: str) -> object:
        rounds.append(len(looks))
        return live

    monkeypatch.setattr(changes, "port_numbers", look)
    monkeypatch.setattr(changes, "PORTS_INTERVAL", 0.001)
    engine = SimpleNamespace(
        store=SimpleNamespace(listeners=set()),
        sandboxes=SimpleNamespace(rows=lambda: [row], find_live=find_live),
    )
    streams = ChangeStreams(cast("Engine", engine))
    stream = streams.add(ANN)
    await async_until(lambda: len(rounds) >= 4)
    assert len(looks) == 1
    assert stream.take() == {"ports": ["iaaa"]}

    live.cage.work += 1

    await async_until(lambda: len(looks) == 2)
    await stream.wait()
    assert stream.take() == {"ports": ["iaaa"]}
    streams.close()
