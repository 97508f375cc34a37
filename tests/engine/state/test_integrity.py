"""A store that is not whole is found out, left as it is, and the message says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from sbx_jupyter.engine.state.store import Batch, Store
from sbx_jupyter.errors import DataLossError
from tests.engine.rows import sandbox_row
from tests.waiting import until


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """The database of an engine that was killed: the last 50 rows are in the log of SQLite."""
    store = Store(tmp_path / "live" / "engine.db")
    store.path.parent.mkdir()
    await store.open()
    for number in range(50):
        await store.commit(Batch().put(sandbox_row(f"i{number:02}")))
    copy = tmp_path / "crashed"
    copy.mkdir()
    for name in ("engine.db", "engine.db-wal", "engine.seq"):
        shutil.copy(store.path.with_name(name), copy)
    await store.close()
    return copy / "engine.db"


def files(path: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes()
        for each in path.parent.iterdir()
        if not each.name.endswith("-shm")
    }


async def refuse(path: Path) -> str:
    """Open the store, which must fail, name the remedy, and change nothing."""
    before = files(path)
    with pytest.raises(DataLossError, match=r"jupyter sbx recover") as caught:
        await Store(path).open()
    assert {name: files(path).get(name) for name in before} == before
    return caught.value.message


async def test_what_a_killed_engine_left_is_whole(crashed: Path):
    store = Store(crashed)

    await store.open()

    assert len(store.sandboxes) == 50
    await store.close()


async def test_one_changed_bit_in_the_log_of_sqlite_is_found(crashed: Path):
    log = crashed.with_name("engine.db-wal")
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2] ^= 1
    log.write_bytes(raw)

    assert "its last" in await refuse(crashed)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
async def test_a_cut_log_of_sqlite_is_found(crashed: Path, share: float):
    log = crashed.with_name("engine.db-wal")
    log.write_bytes(log.read_bytes()[: int(log.stat().st_size * share)])

    await refuse(crashed)


@pytest.mark.parametrize("name", ["engine.db", "engine.db-wal"])
async def test_a_missing_file_is_found(crashed: Path, name: str):
    crashed.with_name(name).unlink()

    await refuse(crashed)


async def test_an_empty_database_is_found(crashed: Path):
    crashed.write_bytes(b"")

    await refuse(crashed)


async def test_a_missing_database_is_a_new_one_only_where_there_is_nothing_else(tmp_path: Path):
    with pytest.raises(DataLossError, match="2 volumes"):
        await Store(tmp_path / "engine.db").open(beside="2 volumes")

    store = Store(tmp_path / "engine.db")
    await store.open(beside="")
    await store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sandboxes SET record = replace(record, '300', '301') WHERE key = 'i07'",
        "DELETE FROM sandboxes WHERE key = 'i07'",
        "UPDATE sandboxes SET key = 'ixx' WHERE key = 'i07'",
        "UPDATE integrity SET sequence = sequence + 1",
        "DELETE FROM integrity",
    ],
)
async def test_a_change_that_is_not_of_the_engine_is_found(crashed: Path, change: str):
    with sqlite3.connect(crashed) as connection:
        connection.execute(change)
    connection.close()

    await refuse(crashed)


async def test_an_older_copy_of_the_database_is_found(crashed: Path, tmp_path: Path):
    store = Store(crashed)
    await store.open()
    await store.close()
    older = tmp_path / "older.db"
    shutil.copy(crashed, older)
    store = Store(crashed)
    await store.open()
    await store.commit(Batch().put(sandbox_row("ilater")))
    await store.close()
    shutil.copy(older, crashed)

    assert "its last 1 changes" in await refuse(crashed)


async def test_the_database_of_another_engine_is_found(crashed: Path, tmp_path: Path):
    other = Store(tmp_path / "other" / "engine.db")
    other.path.parent.mkdir()
    await other.open()
    await other.close()
    crashed.with_name("engine.db-wal").unlink()
    shutil.copy(other.path, crashed)

    assert "not the store of this directory" in await refuse(crashed)


@pytest.mark.parametrize("damaged", [None, b"", b"x" * 44])
async def test_the_sequence_alone_is_made_anew(crashed: Path, damaged: bytes | None):
    path = crashed.with_name("engine.seq")
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)

    store = Store(crashed)
    await store.open()

    assert len(store.sandboxes) == 50
    await store.close()
    again = Store(crashed)
    await again.open()
    await again.close()


async def test_changes_reach_the_database_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sbx_jupyter.engine.state.store._CHECKPOINT_DELAY", 0.01)
    store = Store(tmp_path / "engine.db")
    await store.open()
    assert sandboxes_without_log(store.path, tmp_path) == 0

    await store.commit(Batch().put(sandbox_row()))

    until(lambda: sandboxes_without_log(store.path, tmp_path) == 1)
    await store.close()


def sandboxes_without_log(path: Path, folder: Path) -> int:
    copy = folder / "copy.db"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    try:
        return connection.execute("SELECT count(*) FROM sandboxes").fetchone()[0]
    except sqlite3.DatabaseError:  # copied while a page was written
        return -1
    finally:
        connection.close()


async def test_a_store_without_checksums_gets_them(tmp_path: Path):
    store = Store(tmp_path / "engine.db")
    await store.open()
    await store.commit(Batch().put(sandbox_row()))
    await store.close()
    store.path.with_name("engine.seq").unlink()
    with sqlite3.connect(store.path) as connection:
        connection.execute("DROP TABLE integrity")
        for table in [
            "sandboxes",
            "templates",
            "builds",
            "requests",
            "volumes",
            "secrets",
            "steps",
            "images",
            "merges",
        ]:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN sequence")
            connection.execute(f"ALTER TABLE {table} DROP COLUMN digest")
        connection.execute("PRAGMA user_version = 3")
    connection.close()

    again = Store(store.path)
    await again.open()

    assert "iaaa" in again.sandboxes
    await again.commit(Batch().put(sandbox_row("ibbb")))
    await again.close()
    last = Store(store.path)
    await last.open()
    assert len(last.sandboxes) == 2
    await last.close()
