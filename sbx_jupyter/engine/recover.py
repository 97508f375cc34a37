"""Rebuilds a damaged store from its intact rows and from the manifests, for ``recover``."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from msgspec.structs import replace

from sbx_jupyter.agent.procfs import boot_id, start_time_of
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.database import KEYS, Batch, key_of
from sbx_jupyter.engine.state.datadir import DataDir, is_no_space
from sbx_jupyter.engine.state.keys import SECRETS_KEY, copy_of, load_or_make_key
from sbx_jupyter.engine.state.manifests import Manifests
from sbx_jupyter.engine.state.quarantine import Quarantine
from sbx_jupyter.engine.state.reserve import Reserve
from sbx_jupyter.engine.state.rows import (
    BuildRow,
    ImageRow,
    MergeRow,
    RequestRow,
    Row,
    SandboxRow,
    SecretRow,
    StepRow,
    TagAssignment,
    TemplateRow,
    VolumeRow,
    now,
)
from sbx_jupyter.engine.state.salvage import Salvage
from sbx_jupyter.engine.state.store import Store
from sbx_jupyter.errors import DataLossError, InternalError, NoSpaceError, SbxError, see
from sbx_jupyter.isolation.kernel.cgroups import SandboxGroup
from sbx_jupyter.isolation.zygote.cage_records import CageRecords
from sbx_jupyter.protocol.access import new_access_token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sbx_jupyter.engine.state.manifest_file import Found

R = TypeVar("R", bound=Row)

_ROWS: Final = {name: kind for kind, (name, _) in KEYS.items()}
_STORE_FILES: Final = (
    "engine.db",
    "engine.db-wal",
    "engine.db-shm",
    "engine.db-journal",
    "engine.seq",
)
_OLD_STORE: Final = "store"
"""Folder that collects the files of the old store, which go to the quarantine together."""

_AGAIN: Final = f"nothing is lost: run `jupyter sbx recover` again{see('recovery')}"
_NAMES: Final = {
    "sandboxes": "sandboxes",
    "templates": "templates and snapshots",
    "volumes": "volumes",
    "secrets": "secrets",
    "images": "images",
}


@dataclass(slots=True)
class Report:
    """The report of a recovery, as lines for a person."""

    lines: list[str] = field(default_factory=list[str])

    def say(self, line: str) -> None:
        self.lines.append(line)


def recover(folder: Path) -> Report:
    """Rebuild the store of a data directory that no engine uses; blocking.

    Files for which no row can be made are moved to the quarantine, and so is the old store. A
    recovery that was killed or failed may be run again. Raises ``FailedPreconditionError`` while an
    engine uses the directory, ``NoSpaceError`` on a full disk, ``SbxError``.
    """
    data_dir = DataDir(folder)
    try:
        return _recover(data_dir)
    except (OSError, SbxError) as error:
        if not is_no_space(error) or not Reserve(data_dir.path).release():
            raise _stopped(error) from error
    try:
        report = _recover(data_dir)
    except (OSError, SbxError) as error:
        raise _stopped(error) from error
    report.say("The disk is full: the space that was kept for that is used.")
    return report


def _recover(data_dir: DataDir) -> Report:
    data_dir.open()
    try:
        return _Recovery(data_dir).run()
    finally:
        data_dir.close()


def _stopped(error: OSError | SbxError) -> SbxError:
    """The error of a recovery that did not come to its end."""
    if is_no_space(error):
        return NoSpaceError(f"no space left to rebuild the store; make some, {_AGAIN}")
    if isinstance(error, OSError):
        return InternalError(f"the recovery stopped: {error}; {_AGAIN}")
    return error


class _Recovery:
    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._folder = data_dir.path
        self._quarantine = Quarantine(data_dir.path)
        self._report = Report()
        self._put_back_store()
        self._key = self._open_key()
        self._manifests = Manifests(data_dir, self._key)
        self._manifests.gather()
        self._predecessors: set[bytes] = set()
        """The store that an earlier recovery set aside last."""
        self._salvage = self._find_salvage()
        self._rows: dict[tuple[str, str], Row] = {}
        self._rebuilt: Counter[str] = Counter()

    def run(self) -> Report:
        found = list(self._manifests.find())
        self._gather(found)
        self._add_unnamed_volumes()
        self._drop_incomplete()
        self._settle_sandboxes()
        for path in {each.path for each in found if not self._is_kept(each)}:
            self._quarantine.add(path, "record", "no row could be made of it")
        # Before there is a store: an engine with a store removes what that does not name.
        self._set_aside_unnamed()
        self._set_aside_store()
        asyncio.run(self._write())
        self._sum_up()
        return self._report

    # Reading

    def _open_key(self) -> bytes:
        path = self._folder / SECRETS_KEY
        try:
            return load_or_make_key(path, Fernet.generate_key)
        except DataLossError:
            for each in (path, copy_of(path)):
                if each.exists():
                    self._quarantine.add(each, "record", "the key is damaged")
            self._report.say(
                "The key of the secrets was damaged and is a new one. Enter secrets again; what "
                "it sealed (tokens, environments, network rules) is lost."
            )
            return load_or_make_key(path, Fernet.generate_key)

    def _find_salvage(self) -> Salvage:
        """The intact rows of the store, or of one that an earlier attempt has set aside."""
        found = Salvage.of(self._data_dir.database)
        stores = [entry for entry in self._quarantine.entries() if entry.kind == "store"]
        for entry in reversed(stores):
            earlier = Salvage.of(entry.content / "engine.db")
            if not found.rows:
                found = earlier
            elif earlier.store_id is not None:
                # A recovery that was killed had stored the rows, and not yet all manifests.
                self._predecessors = {earlier.store_id}
                break
        return found

    def _gather(self, found: list[Found]) -> None:
        """Take the newer of row and manifest; rows of another store count for nothing."""
        manifests = [each.manifest for each in found if each.manifest is not None]
        stores = {manifest.store for manifest in manifests}
        own = self._salvage.store_id
        if not stores or own is None or stores & {own, *self._predecessors}:
            self._rows = {where: row for where, (_, row) in self._salvage.rows.items()}
        for manifest in manifests:
            where = manifest.kind, manifest.key
            is_of_store = own is None or manifest.store == own
            is_older = where in self._rows and manifest.sequence <= self._salvage.rows[where][0]
            if manifest.record is None or manifest.kind not in _ROWS or (is_of_store and is_older):
                continue
            self._rows[where] = self._row_of(manifest.kind, manifest.record, found, manifest)
            self._rebuilt[manifest.kind] += 1

    def _row_of(self, kind: str, record: dict[str, Any], found: list[Found], manifest: Any) -> Row:
        sealed = self._manifests.unseal(manifest)
        if sealed is None and kind == "sandboxes":
            # Without its rules, it gets no network and new tokens: never less isolation.
            self._report.say(
                f"Sandbox {manifest.key}: its environment and network rules are lost. It has new "
                "tokens and no network; clients connect to it again."
            )
            sealed = {
                "access_token": new_access_token(),
                "traffic_token": new_access_token(),
                "allow_internet_access": False,
            }
        return msgspec.convert(record | (sealed or {}), type=_ROWS[kind])

    def _of(self, kind: type[R]) -> list[R]:
        return [row for row in self._rows.values() if isinstance(row, kind)]

    # Deciding

    def _add_unnamed_volumes(self) -> None:
        for volume_id in self._data_dir.volume_directories():
            if ("volumes", volume_id) not in self._rows:
                row = VolumeRow(
                    volume_id=volume_id, name=f"recovered-{volume_id[:8]}", created_at=now()
                )
                self._rows["volumes", volume_id] = row
                self._report.say(f"Volume {volume_id} has lost its name: it is {row.name} now.")

    def _drop_incomplete(self) -> None:
        """Leave out rows without their directories, and tags without their builds."""
        there = {*self._data_dir.layer_directories()}
        sandboxes = {*self._data_dir.sandbox_directories()}
        volumes = {*self._data_dir.volume_directories()}
        for row in list(self._rows.values()):
            if lost := [name for name in _layers(row) if _root(name) not in there]:
                self._drop(row, f"its layer {lost[0]} is missing")
            elif isinstance(row, SandboxRow):
                if self._data_dir.writable(row.sandbox_id).name not in sandboxes:
                    self._drop(row)
            elif isinstance(row, VolumeRow) and row.volume_id not in volumes:
                self._drop(row)
            elif isinstance(row, SecretRow) and not self._opens(row):
                self._drop(row, "its key is lost, enter it again")
        self._mend_templates()

    def _drop(self, row: Row, reason: str = "") -> None:
        name = KEYS[type(row)][0]
        del self._rows[name, key_of(row)]
        if reason and name in (*_NAMES, "builds"):
            shown = row.name if isinstance(row, SecretRow) else key_of(row)
            self._report.say(f"{name.removesuffix('s').capitalize()} {shown}: {reason}.")

    def _opens(self, row: SecretRow) -> bool:
        try:
            Fernet(self._key).decrypt(row.value)
        except InvalidToken:
            return False
        return True

    def _mend_templates(self) -> None:
        builds = {row.build_id: row for row in self._of(BuildRow)}
        with_builds = {row.template_id for row in builds.values()}
        for row in self._of(TemplateRow):
            if row.template_id not in with_builds:
                self._drop(row)  # it was removed, or its builds have lost their layers
                continue
            tags = {tag: each for tag, each in row.tags.items() if each.build_id in builds}
            self._rows["templates", row.template_id] = replace(row, tags=tags)
        for build in builds.values():
            if ("templates", build.template_id) in self._rows or build.status != "ready":
                continue
            tag = TagAssignment(build_id=build.build_id, created_at=build.created_at)
            self._rows["templates", build.template_id] = TemplateRow(
                template_id=build.template_id,
                created_at=build.created_at,
                updated_at=now(),
                is_snapshot=build.source_sandbox_id is not None,
                tags={"default": tag},
            )
            self._report.say(f"Template {build.template_id} has lost its names and tags.")

    def _settle_sandboxes(self) -> None:
        """Set the states by the processes that there are: the rows may be of another time."""
        records = CageRecords(self._folder / "cages").read_all(self._report.say)
        for row in self._of(SandboxRow):
            cage = records.get(row.sandbox_id)
            if cage is not None and _is_alive(cage, self._data_dir.writable(row.sandbox_id)):
                row = self._with_processes(row, cage)
            else:
                row = replace(
                    row, state=State.PAUSED, pause_mode="filesystem", end_at=now(), cage=None
                )
                self._report.say(f"Sandbox {row.sandbox_id} is paused, with its files only.")
            self._rows["sandboxes", row.sandbox_id] = row

    def _with_processes(self, row: SandboxRow, cage: dict[str, Any]) -> SandboxRow:
        row = replace(row, cage=cage, boot_id=cage["boot_id"])
        if SandboxGroup.from_state(cage["group"]).is_frozen():
            self._report.say(f"Sandbox {row.sandbox_id} is paused, with its memory.")
            return replace(row, state=State.PAUSED, pause_mode="full", end_at=now())
        self._report.say(f"Sandbox {row.sandbox_id} runs; its time starts again.")
        end = max(row.end_at, now() + dt.timedelta(seconds=row.timeout))
        return replace(row, state=State.RUNNING, pause_mode=None, end_at=end)

    def _is_kept(self, each: Found) -> bool:
        """Whether a manifest is written again, or goes with its directory."""
        if each.kind == "sandboxes":
            return True
        if each.kind in ("volumes", "layers"):
            return (self._folder / each.directory).is_dir() and each.manifest is not None
        manifest = each.manifest
        return manifest is not None and (manifest.kind, manifest.key) in self._rows

    # Writing

    def _put_back_store(self) -> None:
        """Undo what an earlier attempt had moved of the store when it was killed."""
        old = self._folder / _OLD_STORE
        if not old.is_dir():
            return
        if (old / "engine.db").exists() and (self._folder / "engine.db").exists():
            self._quarantine.add(old, "store", "of an earlier recovery")
            return
        for name in _STORE_FILES:
            if (old / name).exists():
                os.rename(old / name, self._folder / name)
        old.rmdir()

    def _set_aside_store(self) -> None:
        old = self._folder / _OLD_STORE
        old.mkdir(mode=0o700, exist_ok=True)
        for name in _STORE_FILES:
            if (self._folder / name).exists():
                os.rename(self._folder / name, old / name)
        self._quarantine.add(old, "store", "replaced by a recovery")

    async def _write(self) -> None:
        store = Store(self._data_dir.database, manifests=self._manifests)
        await store.open()
        try:
            batch = Batch(puts=list(self._rows.values()), logs=self._salvage.logs)
            await store.commit(batch)
            # The store only warns of one that it could not write, and would not start with it.
            for row in self._rows.values():
                self._manifests.write(row, store.store_id, store.sequence)
        finally:
            await store.close()

    def _set_aside_unnamed(self) -> None:
        reason = "no row could be made of it"
        named = {self._data_dir.writable(row.sandbox_id).name for row in self._of(SandboxRow)}
        for name in self._data_dir.sandbox_directories():
            if name not in named:
                self._quarantine.add(self._data_dir.sandboxes / name, "sandbox", reason)
                self._report.say(f"Sandbox {name.partition('.')[0]} is set aside: {reason}.")
        layers = {_root(name) for row in self._rows.values() for name in _layers(row)}
        for name in self._data_dir.layer_directories():
            if name not in layers:
                self._quarantine.add(self._folder / name, "layer", reason)
                (self._folder / f"{name}.manifest").unlink(missing_ok=True)

    def _sum_up(self) -> None:
        counts = Counter(name for name, _ in self._rows)
        for name, words in _NAMES.items():
            made = self._rebuilt[name]
            more = f", {made} of them from manifests" if made else ""
            self._report.say(f"{counts[name]} {words}{more}.")
        for entry in self._quarantine.entries():
            self._report.say(f"In quarantine: {entry.kind} {entry.name} ({entry.reason}).")


def _layers(row: Row) -> Iterable[str]:
    match row:
        case SandboxRow() | BuildRow() | ImageRow():
            return row.layers
        case StepRow():
            return (*row.layers, *row.below)
        case MergeRow():
            return (row.key, *row.layers)
        case RequestRow():
            return ()
        case _:
            return ()


def _root(name: str) -> str:
    return "/".join(name.split("/")[:2])


def _is_alive(cage: dict[str, Any], writable: Path) -> bool:
    return (
        cage["boot_id"] == boot_id()
        and cage["writable"] == str(writable)
        and start_time_of(cage["pid"]) == cage["start_time"]
    )
