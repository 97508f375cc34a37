"""The records of the platform API about sandboxes (interface 1.2 to 1.4, 8)."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, Literal

import msgspec
from msgspec import field

RUNTIME_VERSION: Final = "0.6.13"
"""Reported as ``envdVersion``; clients enable features by it (interface 6)."""

CLIENT_ID: Final = "local"
DEFAULT_TIMEOUT: Final = 300
DEFAULT_TIMEOUT_V1: Final = 15
MAX_BODY_SIZE: Final = 16 * 1024 * 1024

SandboxState = Literal["running", "paused"]


class Record(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """Base of the platform API's records: fields that are ``None`` are left out."""

    def __repr__(self) -> str:
        """All fields except tokens and passwords."""
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name in self.__struct_fields__
            if not name.endswith(("token", "password"))
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Error(Record, frozen=True):
    code: int
    message: str
    error_code: str | None = None


class VolumeMount(Record, frozen=True):
    name: str
    path: str


OnTimeout = Literal["kill", "pause"]
"""What happens to a sandbox when its time is over."""


class Lifecycle(msgspec.Struct, kw_only=True, frozen=True):
    auto_resume: bool = field(name="autoResume", default=False)
    on_timeout: OnTimeout = field(name="onTimeout", default="kill")


class AutoResume(Record, frozen=True):
    enabled: bool


class EgressTls(Record, frozen=True):
    enabled: bool
    server_name: str | None = field(name="serverName", default=None)
    ca_cert: str | None = field(name="caCert", default=None)


class EgressProxy(Record, frozen=True):
    address: str
    username: str | None = None
    password: str | None = None
    tls: EgressTls | None = None


class NetworkConfig(Record, frozen=True):
    """``SandboxNetworkConfig`` and its update form (interface 8.1)."""

    allow_public_traffic: bool | None = field(name="allowPublicTraffic", default=None)
    allow_out: list[str] | None = field(name="allowOut", default=None)
    deny_out: list[str] | None = field(name="denyOut", default=None)
    dns_servers: list[str] | None = field(name="dnsServers", default=None)
    egress_proxy: EgressProxy | None = field(name="egressProxy", default=None)
    mask_request_host: str | None = field(name="maskRequestHost", default=None)
    https_ports: list[int] | None = field(name="httpsPorts", default=None)
    rules: dict[str, list[dict[str, Any]]] | None = None
    allow_internet_access: bool | None = None


class NewSandbox(Record, frozen=True):
    """The body of create, v1 and v2 (interface 1.2); the last two are additions.

    ``shown_directories`` are those of the engine's machine that the sandbox sees read-only.
    """

    template_id: str = field(name="templateID")
    timeout: int | None = None
    auto_pause: bool = field(name="autoPause", default=False)
    auto_pause_memory: bool = field(name="autoPauseMemory", default=True)
    auto_resume: AutoResume | None = field(name="autoResume", default=None)
    allow_internet_access: bool | None = None
    network: NetworkConfig | None = None
    metadata: dict[str, str] | None = None
    env_vars: dict[str, str] | None = field(name="envVars", default=None)
    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    volume_mounts: list[VolumeMount] | None = field(name="volumeMounts", default=None)
    secure: bool | None = None
    memory_mb: int | None = field(name="memoryMB", default=None)
    shown_directories: list[str] | None = field(name="shownDirectories", default=None)


class Sandbox(Record, frozen=True):
    """The response of create, connect, resume and fork."""

    template_id: str = field(name="templateID")
    sandbox_id: str = field(name="sandboxID")
    client_id: str = field(name="clientID")
    envd_version: str = field(name="envdVersion")
    alias: str | None = None
    envd_access_token: str | None = field(name="envdAccessToken", default=None)
    traffic_access_token: str | None = field(name="trafficAccessToken", default=None)
    domain: str | None = None


class ListedSandbox(Record, frozen=True):
    template_id: str = field(name="templateID")
    sandbox_id: str = field(name="sandboxID")
    client_id: str = field(name="clientID")
    envd_version: str = field(name="envdVersion")
    started_at: dt.datetime = field(name="startedAt")
    end_at: dt.datetime = field(name="endAt")
    cpu_count: int = field(name="cpuCount")
    memory_mb: int = field(name="memoryMB")
    disk_size_mb: int = field(name="diskSizeMB")
    state: SandboxState
    alias: str | None = None
    metadata: dict[str, str] | None = None
    volume_mounts: list[VolumeMount] | None = field(name="volumeMounts", default=None)
    pause_mode: Literal["full", "filesystem"] | None = field(name="pauseMode", default=None)
    owner: str | None = None
    """An addition: whose it is, where it is not the caller's own."""


class SandboxDetail(ListedSandbox, frozen=True, kw_only=True):
    envd_access_token: str | None = field(name="envdAccessToken", default=None)
    allow_internet_access: bool | None = field(name="allowInternetAccess", default=None)
    domain: str | None = None
    network: NetworkConfig | None = None
    lifecycle: Lifecycle | None = None


class ConnectSandbox(Record, frozen=True):
    timeout: int | None = None
    memory: bool | None = None


class ResumeSandbox(ConnectSandbox, frozen=True):
    auto_pause: bool | None = field(name="autoPause", default=None)


class PauseRequest(Record, frozen=True):
    memory: bool = True
    require_healthy_guest: bool = field(name="requireHealthyGuest", default=False)


class ForkRequest(Record, frozen=True):
    timeout: int = DEFAULT_TIMEOUT_V1
    count: int = 1


class ForkResult(Record, frozen=True):
    sandbox: Sandbox | None = None
    error: Error | None = None


class TimeoutRequest(Record, frozen=True):
    timeout: int


class MetadataRequest(Record, frozen=True):
    """The body of ``PATCH /engine/sandboxes/{id}``, an addition: ``null`` removes an entry."""

    metadata: dict[str, str | None]


class RefreshRequest(Record, frozen=True):
    duration: int | None = None


class SnapshotRequest(Record, frozen=True):
    name: str | None = None
    memory: bool | None = None


class SnapshotInfo(msgspec.Struct, kw_only=True, frozen=True):
    snapshot_id: str = field(name="snapshotID")
    names: list[str]


class SandboxMetric(msgspec.Struct, kw_only=True, frozen=True):
    timestamp: dt.datetime
    timestamp_unix: int = field(name="timestampUnix")
    cpu_count: int = field(name="cpuCount")
    cpu_used_pct: float = field(name="cpuUsedPct")
    mem_used: int = field(name="memUsed")
    mem_total: int = field(name="memTotal")
    mem_cache: int = field(name="memCache")
    disk_used: int = field(name="diskUsed")
    disk_total: int = field(name="diskTotal")


class SandboxLogEntry(msgspec.Struct, kw_only=True, frozen=True):
    timestamp: dt.datetime
    message: str
    level: Literal["debug", "info", "warn", "error"]
    fields: dict[str, str]
