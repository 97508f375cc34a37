"""The records that the engine stores: one frozen struct per table row."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.protocol.platform import (
    CLIENT_ID,
    RUNTIME_VERSION,
    Lifecycle,
    ListedSandbox,
    NetworkConfig,
    Sandbox,
    SandboxDetail,
    SandboxLogEntry,
    VolumeMount,
)
from sbx_jupyter.protocol.secrets import Secret
from sbx_jupyter.protocol.templates import BuildStart

EVENTS_ADDRESS: Final = "http://192.0.2.1"
"""``E2B_EVENTS_ADDRESS`` as hosted sandboxes have it; nothing listens at this address."""

BuildStatus = Literal["waiting", "building", "ready", "error"]
PauseMode = Literal["full", "filesystem"]


def now() -> dt.datetime:
    """The current time, with the UTC zone."""
    return dt.datetime.now(dt.UTC)


class Row(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Base of the stored records. A new field with a default needs no migration."""


class SandboxRow(Row, frozen=True, kw_only=True):
    """The stored state of one sandbox. Its ``Slot`` holds the row and the processes at run time."""

    sandbox_id: str
    template_id: str
    build_id: str
    state: State
    started_at: dt.datetime
    end_at: dt.datetime
    timeout: int
    """Seconds asked for at creation; a resume by traffic uses it again (interface 9.4)."""

    window_start: dt.datetime
    """Start of the maximum life: the creation or the last resume."""

    cpu_count: int
    memory_mb: int
    disk_size_mb: int
    alias: str | None = None
    access_token: str | None = None
    traffic_token: str | None = None
    metadata: dict[str, str] = {}
    envs: dict[str, str] = {}
    network: NetworkConfig | None = None
    allow_internet_access: bool | None = None
    volume_mounts: list[VolumeMount] = []
    shown: tuple[str, ...] = ()
    """Directories of the machine that it sees read-only, besides those that all see."""

    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: bool = False
    pause_mode: PauseMode | None = None
    base: str = "host"
    layers: tuple[str, ...] = ()
    """Directories below the data directory, topmost first."""

    default_user: str = "user"
    default_cwd: str = ""
    template_envs: dict[str, str] = {}
    start_command: str | None = None
    ready_command: str | None = None
    owner: str = ""
    """The owner whose key made it; empty for the engine's own key."""

    cage: dict[str, Any] | None = None
    """``Cage.to_state()`` while the sandbox has processes, else ``None``."""

    boot_id: str | None = None
    """The boot of the machine that ``cage`` belongs to."""

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(
            auto_resume=self.auto_resume, on_timeout="pause" if self.auto_pause else "kill"
        )

    @property
    def is_public(self) -> bool:
        """Whether its ports are open to callers without the traffic token."""
        return self.traffic_token is None

    def global_envs(self) -> dict[str, str]:
        """The environment of every process in the sandbox (interface 3.3)."""
        return {
            **self.template_envs,
            **self.envs,
            "E2B_SANDBOX": "true",
            "E2B_SANDBOX_ID": self.sandbox_id,
            "E2B_TEMPLATE_ID": self.template_id,
            "E2B_EVENTS_ADDRESS": EVENTS_ADDRESS,
        }

    def to_sandbox(self, domain: str | None = None) -> Sandbox:
        """The answer of create, connect, resume and fork."""
        return Sandbox(
            template_id=self.template_id,
            sandbox_id=self.sandbox_id,
            client_id=CLIENT_ID,
            envd_version=RUNTIME_VERSION,
            alias=self.alias,
            envd_access_token=self.access_token,
            traffic_access_token=self.traffic_token,
            domain=domain,
        )

    def to_listed(self) -> ListedSandbox:
        """The sandbox as an element of a list."""
        return ListedSandbox(**self._listed())

    def to_detail(self, domain: str | None = None) -> SandboxDetail:
        """The answer of get."""
        return SandboxDetail(
            **self._listed(),
            envd_access_token=self.access_token,
            allow_internet_access=self.allow_internet_access,
            domain=domain,
            network=None if self.network is None else _redact(self.network),
            lifecycle=self.lifecycle,
        )

    def _listed(self) -> dict[str, Any]:
        is_paused = self.state.reported == "paused"
        return {
            "template_id": self.template_id,
            "sandbox_id": self.sandbox_id,
            "client_id": CLIENT_ID,
            "envd_version": RUNTIME_VERSION,
            "started_at": self.started_at,
            "end_at": self.end_at,
            "cpu_count": self.cpu_count,
            "memory_mb": self.memory_mb,
            "disk_size_mb": self.disk_size_mb,
            "state": self.state.reported,
            "alias": self.alias,
            "metadata": self.metadata,
            "volume_mounts": self.volume_mounts or None,
            "pause_mode": self.pause_mode if is_paused else None,
            # Only a caller who sees all gets those of others.
            "owner": None if self.owner == caller().owner else self.owner,
        }


def _redact(network: NetworkConfig) -> NetworkConfig:
    """The network configuration without the egress proxy's password and certificate."""
    proxy = network.egress_proxy
    if proxy is None:
        return network
    tls = None if proxy.tls is None else msgspec.structs.replace(proxy.tls, ca_cert=None)
    proxy = msgspec.structs.replace(proxy, password=None, tls=tls)
    return msgspec.structs.replace(network, egress_proxy=proxy)


class TemplateRow(Row, frozen=True, kw_only=True):
    """A template: a name for builds. A snapshot is a template too."""

    template_id: str
    aliases: tuple[str, ...] = ()
    public: bool = False
    created_at: dt.datetime
    updated_at: dt.datetime
    spawn_count: int = 0
    last_spawned_at: dt.datetime | None = None
    is_stock: bool = False
    is_snapshot: bool = False
    owner: str = ""
    tags: dict[str, TagAssignment] = {}
    assignments: tuple[PastAssignment, ...] = ()
    """The last assignments of its tags to builds, oldest first."""


class TagAssignment(Row, frozen=True, kw_only=True):
    """The build that a tag of a template points to."""

    build_id: str
    created_at: dt.datetime


class PastAssignment(Row, frozen=True, kw_only=True):
    """One assignment of a tag to a build."""

    assignment_id: str
    tag: str
    build_id: str
    at: dt.datetime


class BuildRow(Row, frozen=True, kw_only=True):
    """One making of a template: the layers and settings that a sandbox starts from."""

    build_id: str
    template_id: str
    status: BuildStatus = "waiting"
    created_at: dt.datetime
    updated_at: dt.datetime
    finished_at: dt.datetime | None = None
    cpu_count: int
    memory_mb: int
    disk_size_mb: int
    base: str = "host"
    layers: tuple[str, ...] = ()
    default_user: str = "user"
    default_cwd: str = ""
    envs: dict[str, str] = {}
    start_command: str | None = None
    ready_command: str | None = None
    reason: str | None = None
    reason_step: str | None = None
    tags: tuple[str, ...] = ()
    """The tags that it gets once it is ready."""

    source_sandbox_id: str | None = None
    """The sandbox that a snapshot was made from."""

    announced: BuildStart | None = None
    """The build instructions, when they were sent before the start of the build."""


class StepRow(Row, frozen=True, kw_only=True):
    """The cached result of a build step; a later build with the same step does not run it again."""

    key: str
    layers: tuple[str, ...] = ()
    """The layer that the step made; empty if it changed no files."""

    below: tuple[str, ...] = ()
    """The layers that the step ran on; the result is useless without them."""

    used_at: dt.datetime


class ImageRow(Row, frozen=True, kw_only=True):
    """A container image that was unpacked into a layer."""

    key: str
    """The digest of its manifest or configuration."""

    names: tuple[str, ...] = ()
    """The names it was imported under; empty for an image pulled from a registry."""

    layers: tuple[str, ...]
    envs: dict[str, str] = {}
    used_at: dt.datetime


class MergeRow(Row, frozen=True, kw_only=True):
    """A layer merged from several others, with the same files as their stack."""

    key: str
    """The merged layer."""

    layers: tuple[str, ...]
    """The layers it was merged from, topmost first."""


class RequestRow(Row, frozen=True, kw_only=True):
    """An idempotency key that made a sandbox (interface 1.2)."""

    key: str
    fingerprint: str
    sandbox_id: str


class VolumeRow(Row, frozen=True, kw_only=True):
    """A volume; its files are in the directory named after its id."""

    volume_id: str
    name: str
    """Unique among the volumes of its owner."""
    created_at: dt.datetime
    owner: str = ""


class SecretRow(Row, frozen=True, kw_only=True):
    """A secret with its encrypted value."""

    secret_id: str
    name: str
    """Unique among the secrets of its owner."""
    owner: str = ""
    version: int
    value: bytes
    metadata: dict[str, Any] = {}
    created_at: dt.datetime
    updated_at: dt.datetime

    def to_secret(self) -> Secret:
        return Secret(
            secret_id=self.secret_id,
            name=self.name,
            current_version=self.version,
            metadata=self.metadata,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class LogRow(Row, frozen=True, kw_only=True):
    """Something that happened to a sandbox."""

    sandbox_id: str
    timestamp: dt.datetime
    level: Literal["debug", "info", "warn", "error"]
    message: str
    fields: dict[str, str] = {}

    def to_entry(self) -> SandboxLogEntry:
        return SandboxLogEntry(
            timestamp=self.timestamp, message=self.message, level=self.level, fields=self.fields
        )


def layer_paths(data_dir: Path, layers: tuple[str, ...]) -> tuple[Path, ...]:
    """The absolute paths of a row's layers."""
    return tuple(data_dir / layer for layer in layers)
