"""The records of disk use and of work in progress, additions to the platform API."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec
from msgspec import field

OperationKind = Literal["snapshot", "fork", "pause"]
OperationPhase = Literal["copying", "finishing", "storing", "starting"]


class SandboxOperation(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """Work on a sandbox that may take long."""

    operation_id: str = field(name="operationID")
    kind: OperationKind
    phase: OperationPhase
    """``copying``: the sandbox runs; ``finishing``: it stands still; ``storing``: what was copied
    is brought to the disk; ``starting``: the forks are started."""

    started_at: dt.datetime
    done_bytes: int
    total_bytes: int | None
    """Not known in the first second."""

    cancellable: bool


class StackUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What layers take on the disk."""

    own_bytes: int
    """Of layers that nothing else stands on: what removing it frees."""

    shared_bytes: int
    """Of layers that others stand on as well."""

    layers: int


class BuildUse(StackUse, kw_only=True, frozen=True, rename="camel"):
    """A build of a template."""

    build_id: str = field(name="buildID")
    tags: list[str]


class TemplateUse(StackUse, kw_only=True, frozen=True, rename="camel"):
    """A template or a snapshot with all its builds."""

    template_id: str = field(name="templateID")
    names: list[str]
    kind: Literal["template", "snapshot", "stock"]
    builds: list[BuildUse]


class SandboxUse(StackUse, kw_only=True, frozen=True, rename="camel"):
    """A sandbox; what it has written is among its own bytes."""

    sandbox_id: str = field(name="sandboxID")
    state: str
    written_bytes: int


class VolumeUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A volume."""

    volume_id: str = field(name="volumeID")
    name: str
    own_bytes: int


class CacheUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """Things that are kept because they may be of use again."""

    own_bytes: int
    shared_bytes: int
    """Of layers that templates or sandboxes stand on as well."""

    count: int


class DiskUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What ``GET /engine/disk`` answers."""

    measured_at: dt.datetime
    age_seconds: float
    total_bytes: int
    """All of the below together, each byte once."""

    disk_bytes: int
    """The size of the file system that the data directory is on."""

    free_bytes: int
    templates: list[TemplateUse]
    sandboxes: list[SandboxUse]
    volumes: list[VolumeUse]
    step_cache: CacheUse
    images: CacheUse
    """Container images, unpacked."""

    blobs: CacheUse
    """Container images as they came."""

    uploads: CacheUse
    """Files that builds copied."""

    stock_bytes: int
    """The root file system that all sandboxes show."""

    other_bytes: int
    """The engine's database, logs and metrics, and layers that are being made or removed."""


PruneKind = Literal["steps", "images", "uploads", "layers"]


class PruneRequest(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What to remove; everything that is of no use now where nothing is named."""

    kinds: tuple[PruneKind, ...] = ("steps", "images", "uploads", "layers")
    dry_run: bool = False


class Pruned(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What was removed of one kind, or would be."""

    kind: PruneKind
    count: int
    freed_bytes: int


class PruneAnswer(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What ``POST /engine/prune`` answers."""

    dry_run: bool
    freed_bytes: int
    pruned: list[Pruned]
