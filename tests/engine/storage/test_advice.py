"""The engine says how to have no slow copies, once, where the disk cannot share data."""

from __future__ import annotations

import logging

import pytest

from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.storage import capture
from tests.engine.living import create, messages


def advice(engine: Engine, *sandbox_ids: str) -> list[str]:
    return [
        message
        for sandbox_id in sandbox_ids
        for message in messages(engine, sandbox_id)
        if "jupyter sbx storage create" in message
    ]


async def test_the_first_slow_copy_names_the_remedy_and_no_other_does(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    if engine.report.reflink:
        pytest.skip("this disk shares data between files")
    source = await create(engine)
    await engine.snapshots.create(source.sandbox_id)
    assert advice(engine, source.sandbox_id) == [], "it was fast"

    monkeypatch.setattr(capture, "_SLOW", 0.0)
    with caplog.at_level(logging.INFO, logger="sbx_jupyter.engine"):
        (fork,) = await engine.forks.create(source.sandbox_id, timeout=100)
        await engine.snapshots.create(source.sandbox_id)
    assert not isinstance(fork, Exception)
    await engine.snapshots.create(fork.sandbox_id)

    (said,) = advice(engine, source.sandbox_id, fork.sandbox_id)
    assert said.startswith("The fork took ")
    assert said.endswith("(jupyter sbx help storage)")
    assert [record.message for record in caplog.records].count(said) == 1
