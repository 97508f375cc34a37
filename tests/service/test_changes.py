"""How many clients may follow changes: no owner takes the streams of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sbx_jupyter.engine.owners import Caller
from sbx_jupyter.errors import ResourceExhaustedError
from sbx_jupyter.service import changes
from sbx_jupyter.service.changes import MAX_STREAMS_PER_OWNER, ChangeStreams

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
