"""The store: what was acknowledged is there, and nothing is reset silently."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.migrations import VERSION
from sbx_jupyter.engine.state.rows import RequestRow, SandboxRow, now
from sbx_jupyter.engine.state.store import Batch, Store
from sbx_jupyter.errors import (
    DataLossError,
    FailedPreconditionError,
    InternalError,
    NoSpaceError,
    UnavailableError,
)
from tests.engine.rows import sandbox_row
from tests.engine_process import CHECKOUT


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path / "engine.db")
    await store.open()
    yield store
    await store.close()


async def reopen(store: Store) -> Store:
    await store.close()
    again = Store(store.path)
    await again.open()
    return again


async def test_a_committed_row_is_visible_and_survives_reopening(store: Store):
    row = sandbox_row(metadata={"a": "b"}, envs={"X": "1"}, cage={"pid": 7})

    await store.commit(Batch().put(row))

    assert store.sandboxes.get("iaaa") == row
    again = await reopen(store)
    assert again.sandboxes.get("iaaa") == row
    await again.close()


async def test_a_batch_is_done_together(store: Store):
    await store.commit(Batch().put(sandbox_row("iold")))
    request = RequestRow(key="k", fingerprint="f", sandbox_id="inew")

    await store.commit(Batch().put(sandbox_row("inew")).put(request).remove(SandboxRow, "iold"))

    assert [row.sandbox_id for row in store.sandboxes] == ["inew"]
    assert store.requests.get("k") == request


async def test_many_commits_at_once_are_all_acknowledged(store: Store):
    rows = [sandbox_row(f"i{number}") for number in range(500)]

    await asyncio.gather(*(store.commit(Batch().put(row)) for row in rows))

    again = await reopen(store)
    assert len(again.sandboxes) == 500
    await again.close()


async def test_a_bad_batch_fails_alone_in_its_group(store: Store):
    bad = Batch().put(sandbox_row("ibad"))
    bad.logs.append(object())  # type: ignore[arg-type]

    results = await asyncio.gather(
        *(store.commit(Batch().put(sandbox_row(f"i{n}"))) for n in range(5)),
        store.commit(bad),
        return_exceptions=True,
    )

    assert results[:5] == [None] * 5
    assert isinstance(results[5], InternalError)
    assert len(store.sandboxes) == 5


async def test_a_cancelled_caller_does_not_undo_the_commit(store: Store):
    task = asyncio.create_task(store.commit(Batch().put(sandbox_row())))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    again = await reopen(store)
    assert "iaaa" in again.sandboxes
    await again.close()


async def test_log_rows_are_read_in_order_and_forgotten_when_old(store: Store):
    old = logs.entry("ia", "info", "old")
    old = type(old)(
        **{
            **{f: getattr(old, f) for f in old.__struct_fields__},
            "timestamp": now() - dt.timedelta(days=30),
        }
    )
    for row in (old, logs.entry("ia", "info", "one"), logs.entry("ib", "warn", "two")):
        await store.commit(Batch().log(row))

    await store.commit(Batch(forget_logs_before=now() - dt.timedelta(days=7)))

    found = await store.read_logs(now() - dt.timedelta(days=90), 10)
    assert [row.message for row in found] == ["one", "two"]


async def test_only_the_newest_log_rows_of_each_sandbox_are_kept(store: Store):
    for number in range(5):
        await store.commit(Batch().log(logs.entry("ia", "info", f"a{number}")))
        await store.commit(Batch().log(logs.entry("ib", "info", f"b{number}")))
    await store.commit(Batch().log(logs.entry("ic", "info", "c")))

    await store.commit(Batch(keep_logs=2))

    found = await store.read_logs(now() - dt.timedelta(days=1), 100)
    assert [row.message for row in found] == ["a3", "b3", "a4", "b4", "c"]


async def test_a_closed_store_refuses_commits(store: Store):
    await store.close()

    with pytest.raises(UnavailableError):
        await store.commit(Batch().put(sandbox_row()))


async def test_a_damaged_file_is_reported_and_kept(store: Store):
    await store.commit(Batch().put(sandbox_row()))
    await store.close()
    damaged = b"this is no database" * 1000
    store.path.write_bytes(damaged)

    with pytest.raises(DataLossError, match=r"engine\.db"):
        await Store(store.path).open()

    assert store.path.read_bytes() == damaged


async def test_pages_overwritten_in_the_middle_are_reported(store: Store):
    for number in range(200):
        await store.commit(Batch().put(sandbox_row(f"i{number}")))
    await store.close()
    with store.path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 4))

    with pytest.raises(DataLossError, match=r"engine\.db"):
        await Store(store.path).open()


async def test_a_row_that_cannot_be_read_is_reported_by_its_key(store: Store):
    await store.commit(Batch().put(sandbox_row()))
    await store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE sandboxes SET record = ?", (b'{"state": 5}',))
    connection.close()

    with pytest.raises(DataLossError, match="iaaa"):
        await Store(store.path).open()


async def test_a_newer_format_is_refused_and_kept(store: Store):
    await store.close()
    connection = sqlite3.connect(store.path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()

    with pytest.raises(FailedPreconditionError, match="newer version"):
        await Store(store.path).open()


async def test_a_database_of_another_program_is_refused(tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "engine.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()

    with pytest.raises(FailedPreconditionError, match="another program"):
        await Store(tmp_path / "engine.db").open()


async def test_a_full_disk_is_an_error_and_changes_nothing(store: Store):
    await store.commit(Batch().put(sandbox_row("ifirst")))
    connection = store._database._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(NoSpaceError):
        await store.commit(Batch().put(sandbox_row("ibig", metadata={"x": "y" * 100_000})))

    assert "ibig" not in store.sandboxes
    connection.execute("PRAGMA max_page_count = 1000000")
    await store.commit(Batch().put(sandbox_row("ilater")))
    assert "ilater" in store.sandboxes


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path):
    program = textwrap.dedent(
        f"""
        import asyncio, sys
        sys.path.insert(0, {str(CHECKOUT)!r})
        from pathlib import Path
        from sbx_jupyter.engine.state.store import Batch, Store
        from tests.engine.rows import sandbox_row

        async def main():
            store = Store(Path({str(tmp_path / "engine.db")!r}))
            await store.open()
            for number in range(100000):
                await store.commit(Batch().put(sandbox_row(f"i{{number}}")))
                print(number, flush=True)

        asyncio.run(main())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.read().splitlines()
    process.stdout.close()
    process.wait()
    acknowledged = [int(line) for line in lines if line.strip()]

    store = Store(tmp_path / "engine.db")
    asyncio.run(store.open())
    asyncio.run(store.close())

    assert len(acknowledged) >= 50
    assert all(f"i{number}" in store.sandboxes for number in acknowledged)
