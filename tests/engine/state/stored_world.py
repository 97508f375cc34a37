"""A data directory with some of everything, damage to it, and what a start makes of it."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import uuid
from pathlib import Path
from typing import Any

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.database import Batch
from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.manifests import Manifests
from sbx_jupyter.engine.state.quarantine import Quarantine
from sbx_jupyter.engine.state.reconciliation import reconcile
from sbx_jupyter.engine.state.rows import (
    BuildRow,
    ImageRow,
    SandboxRow,
    TagAssignment,
    TemplateRow,
    VolumeRow,
    now,
)
from sbx_jupyter.engine.state.secrets import Secrets
from sbx_jupyter.engine.state.store import Store
from sbx_jupyter.protocol.access import new_sandbox_id
from sbx_jupyter.protocol.platform import NetworkConfig
from sbx_jupyter.protocol.secrets import NewSecret
from tests.engine.rows import START, sandbox_row

SIZES: dict[str, Any] = {"cpu_count": 1, "memory_mb": 512, "disk_size_mb": 1024}


class Opened:
    """The state of a data directory as an engine opens it."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = DataDir(folder)
        self.quarantine = Quarantine(folder)

    async def __aenter__(self) -> Opened:
        self.data_dir.open()
        try:
            self.manifests = Manifests.open(self.data_dir)
            self.store = Store(self.data_dir.database, manifests=self.manifests)
            await self.store.open(beside=self.data_dir.describe_contents())
            try:
                reconcile(self.store, self.manifests, self.data_dir, self.quarantine)
                self.secrets = Secrets(self.store, self.data_dir.path)
            except BaseException:
                await self.store.close()
                raise
        except BaseException:
            self.data_dir.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.store.close()
        self.data_dir.close()

    def contents(self) -> dict[str, Any]:
        """What belongs to the user, but times and states."""
        sandboxes = {
            row.sandbox_id: (
                row.metadata,
                row.envs,
                row.access_token,
                row.traffic_token,
                row.network,
                row.layers,
                row.template_id,
                _file(self.data_dir.writable(row.sandbox_id) / "upper"),
            )
            for row in self.store.sandboxes
        }
        builds = {
            row.build_id: [_file(self.data_dir.path / name) for name in row.layers]
            for row in self.store.builds
        }
        return {
            "sandboxes": sandboxes,
            "volumes": {
                row.name: _file(self.data_dir.path / "volumes" / row.volume_id)
                for row in self.store.volumes
            },
            "templates": {row.aliases: row.tags for row in self.store.templates},
            "builds": builds,
            "images": {row.key: (row.names, row.envs) for row in self.store.images},
            "secrets": {row.name: self.secrets.reveal(row.name) for row in self.store.secrets},
        }


def _file(folder: Path) -> str:
    return (folder / "file").read_text()


async def make_world(folder: Path, copy: Path) -> dict[str, Any]:
    """Fill ``folder`` with some of everything, and take ``copy`` as a killed engine leaves it."""
    async with Opened(folder) as opened:
        store = opened.store
        for _ in range(3):
            await _make_sandbox(opened, ())
        for number in range(2):
            await make_volume(opened, f"volume-{number}")
            await _make_snapshot(opened, f"snapshot-{number}")
            request = NewSecret(name=f"secret-{number}", value=f"value-{number}")
            await opened.secrets.create(request)
        await _make_image(opened)
        build = next(iter(store.builds))
        await _make_sandbox(opened, build.layers)
        await _remove_sandbox(opened)
        await _change_sandbox(opened)
        shutil.copytree(folder, copy)
        return opened.contents()


async def _make_sandbox(opened: Opened, layers: tuple[str, ...]) -> None:
    row = sandbox_row(
        new_sandbox_id(),
        layers=layers,
        envs={"TOKEN": "from the user"},
        metadata={"a": "b"},
        access_token=uuid.uuid4().hex,
        network=NetworkConfig(deny_out=["0.0.0.0/0"]),
        state=State.PAUSED,
        pause_mode="filesystem",
    )
    upper = opened.data_dir.writable(row.sandbox_id) / "upper"
    upper.mkdir(parents=True)
    (upper / "file").write_text(row.sandbox_id)
    await opened.store.commit(Batch().put(row))


async def _remove_sandbox(opened: Opened) -> None:
    row = next(iter(opened.store.sandboxes))
    await opened.store.commit(Batch().remove(SandboxRow, row.sandbox_id))
    shutil.rmtree(opened.data_dir.writable(row.sandbox_id))


async def _change_sandbox(opened: Opened) -> None:
    from msgspec.structs import replace

    row = next(iter(opened.store.sandboxes))
    row = replace(row, metadata={"changed": "later"}, end_at=START + dt.timedelta(days=1))
    await opened.store.commit(Batch().put(row))


async def make_volume(opened: Opened, name: str) -> None:
    row = VolumeRow(volume_id=str(uuid.uuid4()), name=name, created_at=now())
    folder = opened.data_dir.path / "volumes" / row.volume_id
    folder.mkdir(parents=True)
    (folder / "file").write_text(name)
    await opened.store.commit(Batch().put(row))


def _make_layer(opened: Opened) -> str:
    name = f"layers/{uuid.uuid4()}"
    (opened.data_dir.path / name).mkdir()
    (opened.data_dir.path / name / "file").write_text(name)
    return name


async def _make_snapshot(opened: Opened, name: str) -> None:
    build = BuildRow(
        build_id=str(uuid.uuid4()),
        template_id=f"t{name[-1]}",
        status="ready",
        created_at=now(),
        updated_at=now(),
        layers=(_make_layer(opened),),
        envs={"A": "b"},
        source_sandbox_id="ix",
        **SIZES,
    )
    tag = TagAssignment(build_id=build.build_id, created_at=START)
    template = TemplateRow(
        template_id=build.template_id,
        aliases=(name,),
        created_at=now(),
        updated_at=now(),
        is_snapshot=True,
        tags={"default": tag},
    )
    await opened.store.commit(Batch().put(build).put(template))


async def _make_image(opened: Opened) -> None:
    row = ImageRow(
        key="sha256:1",
        names=("mine",),
        layers=(_make_layer(opened),),
        envs={"A": "b"},
        used_at=now(),
    )
    await opened.store.commit(Batch().put(row))


def engine_files(folder: Path) -> list[Path]:
    """The files that the engine itself writes; not what is in volumes, layers and sandboxes."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "file"]
    return sorted(path for path in found if not path.name.endswith(("-shm", ".lock")))


def damage_one(folder: Path, chance: random.Random) -> str:
    """Flip a bit in, cut, empty, remove or exchange one or two files; returns what was done."""
    files = engine_files(folder)
    path = chance.choice(files)
    kind = chance.choice(("flip", "flip", "cut", "empty", "remove", "swap", "zero"))
    raw = path.read_bytes()
    at = chance.randrange(len(raw)) if raw else 0
    if kind == "flip" and raw:
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << chance.randrange(8)]) + raw[at + 1 :])
    elif kind == "cut":
        path.write_bytes(raw[:at])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "zero":
        path.write_bytes(raw[:at] + bytes(min(512, len(raw) - at)) + raw[at + 512 :])
    elif kind == "swap":
        other = chance.choice([each for each in files if each.suffix == path.suffix])
        path.write_bytes(other.read_bytes())
        other.write_bytes(raw)
        return f"swap {path.relative_to(folder)} and {other.relative_to(folder)}"
    else:
        path.unlink()
    return f"{kind} {path.relative_to(folder)} at {at}"
