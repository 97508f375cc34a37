"""Lets each call of an operation on the stored state fail, one at a time.

A program for ``test_each_call.py``: it runs with the library of ``tests.failing_calls`` preloaded.
For each call it forks a process that does the operation on a copy of a data directory, then opens
that directory as the next engine would, and looks at what is there. Prints one line of JSON per
problem, then a summary.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sbx_jupyter.engine.recover import recover
from sbx_jupyter.engine.state import migrations
from sbx_jupyter.engine.state.database import Batch
from sbx_jupyter.engine.state.migrations import TABLES, UNCHECKED
from sbx_jupyter.engine.state.quarantine import Quarantine
from sbx_jupyter.engine.state.rows import VolumeRow
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.owners import NewOwnerKey
from sbx_jupyter.protocol.secrets import NewSecret, SecretUpdate
from sbx_jupyter.service.owner_keys import OwnerKeys
from tests.engine.state.stored_world import Opened, make_volume, make_world
from tests.failing_calls import FailingCalls, Failure

Told = Callable[[str], None]
DRAFT = re.compile(r"\.new$|^\.|\.key(\.copy)?\.[0-9a-f]+$|^store$|-journal$")
"""The names of what an operation makes for a moment."""


@dataclass
class Operation:
    """``prepare`` changes a copy of the world; ``act`` tells what is acknowledged."""

    act: Callable[[Path, Told], None]
    prepare: Callable[[Path], None] = lambda folder: None
    may_refuse: bool = False
    """Whether the next start may ask for a recovery, as the store was damaged before."""


def open_and_close(folder: Path, tell: Told) -> None:
    async def work() -> None:
        async with Opened(folder):
            pass
        tell("opened")

    asyncio.run(work())


def recover_it(folder: Path, tell: Told) -> None:
    recover(folder)
    tell("recovered")


async def _changes(folder: Path, tell: Told) -> None:
    """One of each change; one that fails is told, and the next goes on."""
    async with Opened(folder) as opened:
        store, secrets = opened.store, opened.secrets
        sandbox = next(row for row in store.sandboxes if row.metadata == {"a": "b"})
        steps: dict[str, Callable[[], Any]] = {
            "secret made": lambda: secrets.create(NewSecret(name="new", value="first")),
            "secret changed": lambda: secrets.update("new", SecretUpdate(value="second")),
            "sandbox changed": lambda: store.commit(
                Batch().put(replace(sandbox, metadata={"changed": "now"}))
            ),
            "volume made": lambda: make_volume(opened, "new"),
            "volume removed": lambda: _remove_volume(opened, "volume-0"),
            "secret removed": lambda: secrets.remove("secret-0"),
        }
        for name, step in steps.items():
            try:
                await step()
            except (SbxError, OSError) as error:
                tell(f"refused {name}: {error}")
            else:
                tell(name)


async def _remove_volume(opened: Opened, name: str) -> None:
    row = next(row for row in opened.store.volumes if row.name == name)
    await opened.store.commit(Batch().remove(VolumeRow, row.volume_id))
    shutil.rmtree(opened.data_dir.path / "volumes" / row.volume_id)


def change(folder: Path, tell: Told) -> None:
    asyncio.run(_changes(folder, tell))


def change_keys(folder: Path, tell: Told) -> None:
    keys = OwnerKeys(folder)
    keys.load()
    made = keys.create(NewOwnerKey(owner="ann"))
    tell(f"key {made.key}")
    keys.remove(made.key_id)
    tell("key removed")


def start_anew(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)


def lose_the_store(folder: Path) -> None:
    for path in folder.glob("engine.*"):
        path.unlink()


def flip_a_bit(folder: Path) -> None:
    path = folder / "engine.db-wal"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def change_a_row(folder: Path) -> None:
    """As one changed value does: all other rows are intact, also those that have no manifest."""
    with closing(sqlite3.connect(folder / "engine.db")) as connection:
        connection.execute("UPDATE secrets SET record = record || x'20'")
        connection.commit()


def make_old(folder: Path) -> None:
    """The store as versions without checksums and manifests left it."""
    with closing(sqlite3.connect(folder / "engine.db")) as new:
        rows = {name: new.execute(f"SELECT key, record FROM {name}").fetchall() for name in TABLES}
        owner = new.execute("PRAGMA application_id").fetchone()[0]
    lose_the_store(folder)
    for path in [*folder.rglob("*.manifest"), *folder.glob("sandboxes/*/manifest")]:
        path.unlink()
    shutil.rmtree(folder / "manifests")
    with closing(sqlite3.connect(folder / "engine.db", isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute(f"PRAGMA application_id = {owner}")
        for step in migrations._STEPS[:UNCHECKED]:
            for statement in step:
                assert isinstance(statement, str)
                old.execute(statement)
        for name, found in rows.items():
            old.executemany(f"INSERT INTO {name} VALUES (?, ?)", found)
        old.execute(f"PRAGMA user_version = {UNCHECKED}")


OPERATIONS = {
    "first start": Operation(open_and_close, start_anew),
    "start after a kill": Operation(open_and_close),
    "upgrade": Operation(open_and_close, make_old),
    "changes": Operation(change),
    "keys": Operation(change_keys),
    "recover a lost store": Operation(recover_it, lose_the_store, may_refuse=True),
    "recover a damaged log": Operation(recover_it, flip_a_bit, may_refuse=True),
    "recover with a damaged row": Operation(recover_it, change_a_row, may_refuse=True),
}


# What has to be true afterwards


@dataclass
class Round:
    """One failure of one operation."""

    folder: Path
    operation: Operation
    contents: dict[str, Any]
    told: list[str] = field(default_factory=list[str])
    hit: str = ""
    """The call that failed."""

    def check(self) -> None:
        """Raises ``AssertionError`` for what is lost, half there or left behind."""
        is_done = "recovered" in self.told
        try:
            found = asyncio.run(contents_of(self.folder))
        except SbxError as error:
            message = error.message
            if is_done or not self.operation.may_refuse:
                raise AssertionError(f"the next start refuses: {message}") from None
            assert "jupyter sbx recover" in message
            recover(self.folder)
            found = asyncio.run(contents_of(self.folder))
        self._check_contents(found)
        self._check_keys()
        self._check_leftovers()

    def _check_contents(self, found: dict[str, Any]) -> None:
        expected = {name: dict(rows) for name, rows in self.contents.items()}
        if self.operation.act is change:
            self._check_changes(found, expected)
        assert found == expected

    def _check_changes(self, found: dict[str, Any], expected: dict[str, Any]) -> None:
        """Move each change that came about from ``found`` into ``expected``."""
        value = found["secrets"].pop("new", None)
        assert value in (None, "first", "second")
        if "secret made" in self.told:
            assert value is not None
        if "secret changed" in self.told:
            assert value == "second"
        is_there = found["volumes"].pop("new", None) == "new"
        assert is_there or "volume made" not in self.told
        for name, kind, key in (
            ("secret removed", "secrets", "secret-0"),
            ("volume removed", "volumes", "volume-0"),
        ):
            if key not in found[kind]:
                del expected[kind][key]
            else:
                assert name not in self.told
        changed = [key for key, row in found["sandboxes"].items() if row[0] == {"changed": "now"}]
        for key in changed:
            expected["sandboxes"][key] = ({"changed": "now"}, *expected["sandboxes"][key][1:])
        assert len(changed) == 1 or "sandbox changed" not in self.told

    def _check_keys(self) -> None:
        keys = OwnerKeys(self.folder)
        keys.load()
        for line in self.told:
            if line.startswith("key e2b_"):
                is_known = keys.find(line.removeprefix("key ")) is not None
                assert is_known or len(keys.list()) == 0
        if "key removed" in self.told:
            assert keys.list() == []

    def _check_leftovers(self) -> None:
        drafts = [
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if DRAFT.search(path.name) and "content" not in path.parts
        ]
        assert drafts == []
        entries = Quarantine(self.folder).entries()
        empty = [entry.folder.name for entry in entries if not os.path.lexists(entry.content)]
        assert empty == []
        kinds = {entry.kind for entry in entries}
        if self.hit.endswith("engine.seq"):
            # Without a whole one no removal is certain, and what no row names is set aside.
            kinds -= {"record", "volume", "sandbox"}
        assert kinds <= ({"store"} if self.operation.may_refuse else set()), entries


async def contents_of(folder: Path) -> dict[str, Any]:
    async with Opened(folder) as opened:
        assert not opened.quarantine.pending
        assert len(opened.store.steps) == len({row.key for row in opened.store.steps})
        return opened.contents()


# Running


class Runner:
    def __init__(self, calls: FailingCalls, scratch: Path) -> None:
        self._calls = calls
        self._scratch = scratch
        contents = asyncio.run(make_world(scratch / "made", scratch / "left"))
        self._contents = contents

    def count(self, operation: Operation) -> int:
        """How many calls an operation makes."""
        folder = self._make(operation, "counted")
        self._calls.arm(folder, Failure.KILLED, 0)
        told = self._act(operation, folder)
        self._calls.disarm()
        assert told
        assert not any(line.startswith(("refused", "failed")) for line in told), told
        Round(folder, operation, self._contents_of(operation), told).check()
        shutil.rmtree(folder)
        return self._calls.count

    def run(self, operation: Operation, failure: Failure, number: int) -> str:
        """What is wrong after call ``number`` failed; empty for nothing."""
        folder = self._make(operation, f"{failure.name}-{number}")
        self._calls.arm(folder, failure, number)
        told = self._act(operation, folder)
        self._calls.disarm()
        try:
            for line in told:
                assert "Traceback" not in line, line
                is_refused = line.startswith(("refused", "failed")) and "not found" not in line
                if failure is Failure.NO_SPACE and is_refused:
                    assert "no space left" in line.lower(), line
            contents = self._contents_of(operation)
            Round(folder, operation, contents, told, self._calls.hit).check()
        except Exception:
            return f"{self._calls.hit}: told {told}\n{traceback.format_exc(limit=-1)}"
        finally:
            shutil.rmtree(folder)
        return ""

    def _make(self, operation: Operation, name: str) -> Path:
        folder = self._scratch / name
        shutil.copytree(self._scratch / "left", folder)
        operation.prepare(folder)
        return folder

    def _contents_of(self, operation: Operation) -> dict[str, Any]:
        if operation.prepare is start_anew:
            return {name: {} for name in self._contents}
        return self._contents

    def _act(self, operation: Operation, folder: Path) -> list[str]:
        """Do it in a process of its own; what that told."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _act_and_exit(operation, folder, writer)
        os.close(writer)
        with open(reader) as file:
            told = file.read().splitlines()
        os.waitpid(pid, 0)
        return told


def _act_and_exit(operation: Operation, folder: Path, writer: int) -> None:
    def tell(line: str) -> None:
        os.write(writer, line.replace("\n", " ").encode() + b"\n")

    try:
        operation.act(folder, tell)
    except (SbxError, OSError) as error:
        tell(f"failed: {error}")
    except BaseException:
        tell(traceback.format_exc())
    finally:
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--every", type=int, default=1, help="try each n-th call only")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    environment = os.environ
    calls = FailingCalls(Path(environment["LD_PRELOAD"]), Path(environment["SBX_FAILING_CALLS"]))
    operation = OPERATIONS[options.operation]
    rounds = 0
    with tempfile.TemporaryDirectory(dir=calls.path.parent) as scratch:
        runner = Runner(calls, Path(scratch))
        count = runner.count(operation)
        for failure in Failure:
            for number in range(1, count + 1, options.every):
                rounds += 1
                if problem := runner.run(operation, failure, number):
                    print(json.dumps([failure.name, number, problem]), flush=True)
    print(json.dumps({"calls": count, "rounds": rounds}))


if __name__ == "__main__":
    sys.exit(main())
