"""Additions to the platform API: the engine's details of templates, snapshots and volumes."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec
from msgspec import field


class TemplateDetail(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A template or a snapshot, and what depends on it."""

    template_id: str = field(name="templateID")
    names: list[str]
    kind: Literal["stock", "template", "snapshot"]
    is_own: bool
    """Whether the caller may rename and remove it."""

    created_at: dt.datetime
    updated_at: dt.datetime
    last_spawned_at: dt.datetime | None = None
    spawn_count: int
    build_id: str = field(name="buildID")
    """The id of the newest build."""

    build_status: Literal["waiting", "building", "ready", "error"]
    build_count: int
    tags: list[str]
    cpu_count: int
    memory_mb: int = field(name="memoryMB")
    disk_size_mb: int = field(name="diskSizeMB")
    source_sandbox_id: str | None = field(name="sourceSandboxID", default=None)
    """The sandbox that the newest snapshot was made from; it may have ended."""

    sandboxes: list[str]
    """Sandboxes of the caller that were made from it: it cannot be removed before them."""

    own_bytes: int | None = None
    """Bytes that its removal frees; like ``sharedBytes``, ``None`` unless sizes were asked for."""

    shared_bytes: int | None = None


class TemplateRename(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``PATCH /engine/templates/{id}``; an empty name removes the name."""

    name: str


class VolumeDetail(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A volume, and where it is mounted."""

    volume_id: str = field(name="volumeID")
    name: str
    created_at: dt.datetime
    sandboxes: list[str]
    """Sandboxes that have it mounted."""

    own_bytes: int | None = None
    """``None`` unless sizes were asked for."""
