"""The records of disk use and of work in progress, additions to the platform API."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec
from msgspec import field

OperationKind = Literal["snapshot", "fork", "pause"]
OperationPhase = Literal["copying", "finishing", "storing", "starting"]


class SandboxOperation(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A long operation on a sandbox."""

    operation_id: str = field(name="operationID")
    kind: OperationKind
    phase: OperationPhase
    """``copying``: the sandbox runs; ``finishing``: it is frozen; ``storing``: the copy is written
    to the disk; ``starting``: the forks are started."""

    started_at: dt.datetime
    done_bytes: int
    total_bytes: int | None
    """``None`` in the first second, when it is not known."""

    cancellable: bool


class StackUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The disk space of layers."""

    own_bytes: int
    """Bytes of layers that nothing else uses: freed by its removal."""

    shared_bytes: int
    """Bytes of layers that others use too."""

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
    """A sandbox; ``own_bytes`` include ``written_bytes``."""

    sandbox_id: str = field(name="sandboxID")
    state: str
    written_bytes: int


class VolumeUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A volume."""

    volume_id: str = field(name="volumeID")
    name: str
    own_bytes: int


class CacheUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """Cached items of one kind."""

    own_bytes: int
    shared_bytes: int
    """Bytes of layers that templates or sandboxes use too."""

    count: int


class QuarantineUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """Something that was set aside because no row of the store names it."""

    kind: Literal["sandbox", "volume", "layer", "record", "store"]
    name: str
    since: dt.datetime
    reason: str
    path: str
    own_bytes: int


class DiskUse(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The response of ``GET /engine/disk``."""

    measured_at: dt.datetime
    age_seconds: float
    total_bytes: int
    """The sum of all items below; shared bytes count once."""

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
    """Container images as downloaded."""

    uploads: CacheUse
    """Files that builds copied."""

    quarantine: list[QuarantineUse] = []
    stock_bytes: int
    """The root file system that all sandboxes use."""

    other_bytes: int
    """The engine's database, logs and metrics, and layers that are being made or removed."""


PruneKind = Literal["steps", "images", "uploads", "layers", "quarantine"]


class PruneRequest(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The kinds of unused items to remove, by default all but the quarantine."""

    kinds: tuple[PruneKind, ...] = ("steps", "images", "uploads", "layers")
    dry_run: bool = False


class Pruned(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The removed items of one kind, or those that a dry run would remove."""

    kind: PruneKind
    count: int
    freed_bytes: int


class PruneAnswer(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The response of ``POST /engine/prune``."""

    dry_run: bool
    freed_bytes: int
    pruned: list[Pruned]
