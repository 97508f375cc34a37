"""An engine starts whatever somebody put into its directory, and leaves that alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.engine.conftest import MakeEngine
from tests.engine.living import create, run

pytestmark = pytest.mark.long

FOLDERS = ("cages", "run", "sandboxes", "layers", "volumes", "volumes-removed", "metrics",
           "uploads", "blobs")  # fmt: skip
JSON = ("", "{", "[]", "17", '"text"', "null", '{"pid": 1}', "[" * 100_000, "\0\udc80",
        json.dumps({"pid": -1, "start_time": 1, "boot_id": "x", "writable": "/", "group": {},
                    "kept": False}))  # fmt: skip


def litter(folder: Path, away: Path) -> set[str]:
    """Put one of everything there; gives the names."""
    before = set(os.listdir(folder))
    (folder / "evil" / "inner").mkdir(parents=True)
    (folder / ".hidden" / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(away)
    (folder / "i00000000000000000000").symlink_to(away)
    (folder / "8e0ac2ff-4ab7-4d60-9a4b-000000000000").symlink_to(away)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "i00000000000000000001")
    os.mkfifo(folder / "fifo.part")
    for index, text in enumerate(JSON):
        (folder / f"record{index}").write_text(text, errors="surrogateescape")
    (folder / "closed").write_text("secret")
    (folder / "closed").chmod(0)
    return set(os.listdir(folder)) - before


async def test_a_start_ignores_what_it_does_not_know(
    make_engine: MakeEngine,
    data_dir: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    away = tmp_path / "away"
    (away / "kept").mkdir(parents=True)
    engine = await make_engine()
    row = await create(engine)
    await engine.stop(kill_sandboxes=False)
    littered = {}
    for name in FOLDERS:
        (data_dir / name).mkdir(exist_ok=True)
        littered[name] = litter(data_dir / name, away)
    (data_dir / "helper" / "zygote.json").unlink()
    os.mkfifo(data_dir / "helper" / "zygote.json")

    engine = await make_engine()

    assert await run(engine, row.sandbox_id, "echo alive") == "alive"
    for name, put in littered.items():
        gone = put - set(os.listdir(data_dir / name))
        assert gone == set(), name
    assert (away / "kept").is_dir()
    said = [*caplog.messages, *capfd.readouterr().err.splitlines()]  # a helper has no log
    for name in ("cages", "run", "sandboxes", "layers", "volumes"):
        told = [record for record in said if f"/{name}/evil is " in record]
        assert len(told) == 1, name
    await engine.sandboxes.kill(row.sandbox_id)


async def test_the_zygote_record_may_be_anything(make_engine: MakeEngine, data_dir: Path):
    engine = await make_engine()
    record = data_dir / "helper" / "zygote.json"
    for text in JSON:
        await engine.stop(kill_sandboxes=True)
        record.write_text(text, errors="surrogateescape")
        engine = await make_engine()
    assert stat.S_ISREG(record.stat().st_mode)
