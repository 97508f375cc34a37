"""The records of templates, their builds and tags (interface 1.5 and 7.2)."""

from __future__ import annotations

import datetime as dt
from typing import Final, Literal

import msgspec
from msgspec import field

from sbx_jupyter.protocol.platform import Record

DEFAULT_CPU_COUNT: Final = 2
DEFAULT_MEMORY_MB: Final = 1024
MAX_NAME: Final = 128
MAX_LOG_PAGE: Final = 100

BuildStatus = Literal["waiting", "building", "ready", "error"]
Level = Literal["debug", "info", "warn", "error"]
LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warn", "error")


class Creator(msgspec.Struct, kw_only=True, frozen=True):
    id: str
    email: str | None


class Template(msgspec.Struct, kw_only=True, frozen=True):
    """One element of a list of templates (T12 to T14)."""

    template_id: str = field(name="templateID")
    build_id: str = field(name="buildID")
    cpu_count: int = field(name="cpuCount")
    memory_mb: int = field(name="memoryMB")
    disk_size_mb: int = field(name="diskSizeMB")
    public: bool
    aliases: list[str]
    names: list[str]
    created_at: dt.datetime = field(name="createdAt")
    updated_at: dt.datetime = field(name="updatedAt")
    created_by: Creator | None = field(name="createdBy", default=None)
    last_spawned_at: dt.datetime | None = field(name="lastSpawnedAt", default=None)
    spawn_count: int = field(name="spawnCount")
    build_count: int = field(name="buildCount")
    envd_version: str = field(name="envdVersion")
    build_status: BuildStatus = field(name="buildStatus")
    is_default: bool = field(name="isDefault", default=False)


class TemplateBuild(Record, frozen=True):
    """One build in the answer about a template (T15)."""

    build_id: str = field(name="buildID")
    status: BuildStatus
    created_at: dt.datetime = field(name="createdAt")
    updated_at: dt.datetime = field(name="updatedAt")
    cpu_count: int = field(name="cpuCount")
    memory_mb: int = field(name="memoryMB")
    finished_at: dt.datetime | None = field(name="finishedAt", default=None)
    disk_size_mb: int | None = field(name="diskSizeMB", default=None)
    envd_version: str | None = field(name="envdVersion", default=None)


class TemplateWithBuilds(Template, frozen=True, kw_only=True):
    builds: list[TemplateBuild]


class TemplateRequest(Record, frozen=True):
    """The body of T1; the engine checks the bounds, since clients know its messages."""

    name: str | None = None
    tags: list[str] | None = None
    alias: str | None = None
    team_id: str | None = field(name="teamID", default=None)
    cpu_count: int | None = field(name="cpuCount", default=None)
    memory_mb: int | None = field(name="memoryMB", default=None)
    min_free_disk_mb: int | None = field(name="minFreeDiskMb", default=None)


class DockerfileRequest(Record, frozen=True):
    """The body of the older build request (T19)."""

    dockerfile: str
    alias: str | None = None
    team_id: str | None = field(name="teamID", default=None)
    start_cmd: str | None = field(name="startCmd", default=None)
    ready_cmd: str | None = field(name="readyCmd", default=None)
    cpu_count: int | None = field(name="cpuCount", default=None)
    memory_mb: int | None = field(name="memoryMB", default=None)

    def to_request(self) -> TemplateRequest:
        """The same request in the form of T1."""
        return TemplateRequest(alias=self.alias, cpu_count=self.cpu_count, memory_mb=self.memory_mb)


class TemplateAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The response of T1."""

    template_id: str = field(name="templateID")
    build_id: str = field(name="buildID")
    public: bool
    names: list[str]
    tags: list[str]
    aliases: list[str]


class FileUpload(Record, frozen=True):
    """The response of T2."""

    present: bool
    url: str | None = None


class Step(Record, frozen=True):
    """One instruction of a build (interface 7.3)."""

    type: str
    args: list[str] | None = None
    files_hash: str | None = field(name="filesHash", default=None)
    force: bool = False


class Registry(Record, frozen=True):
    """Credentials of a container registry, in any of their forms."""

    type: Literal["registry", "aws", "gcp"]
    username: str | None = None
    password: str | None = None
    aws_access_key_id: str | None = field(name="awsAccessKeyId", default=None)
    aws_secret_access_key: str | None = field(name="awsSecretAccessKey", default=None)
    aws_region: str | None = field(name="awsRegion", default=None)
    service_account_json: str | None = field(name="serviceAccountJson", default=None)

    def __repr__(self) -> str:
        return f"Registry(type={self.type!r})"


class BuildStart(Record, frozen=True):
    """The body of T4."""

    from_image: str | None = field(name="fromImage", default=None)
    from_template: str | None = field(name="fromTemplate", default=None)
    from_image_registry: Registry | None = field(name="fromImageRegistry", default=None)
    force: bool = False
    steps: list[Step] | None = None
    start_cmd: str | None = field(name="startCmd", default=None)
    ready_cmd: str | None = field(name="readyCmd", default=None)


class BuildLogEntry(Record, frozen=True):
    timestamp: dt.datetime
    message: str
    level: Level
    step: str | None = None


class BuildReason(Record, frozen=True):
    message: str
    step: str | None = None
    log_entries: list[BuildLogEntry] | None = field(name="logEntries", default=None)


class BuildInfo(msgspec.Struct, kw_only=True, frozen=True):
    """The response of T5; ``reason`` is absent unless the build failed."""

    template_id: str = field(name="templateID")
    build_id: str = field(name="buildID")
    status: BuildStatus
    logs: list[str]
    log_entries: list[BuildLogEntry] = field(name="logEntries")
    reason: BuildReason | msgspec.UnsetType = msgspec.UNSET


class BuildLogs(msgspec.Struct, kw_only=True, frozen=True):
    """The response of T6."""

    logs: list[BuildLogEntry]


class AliasAnswer(msgspec.Struct, kw_only=True, frozen=True):
    template_id: str = field(name="templateID")
    public: bool


class AssignTags(Record, frozen=True):
    target: str
    tags: list[str]


class AssignedTags(msgspec.Struct, kw_only=True, frozen=True):
    tags: list[str]
    build_id: str = field(name="buildID")


class RemoveTags(Record, frozen=True):
    name: str
    tags: list[str]


class TemplateTag(msgspec.Struct, kw_only=True, frozen=True):
    tag: str
    build_id: str = field(name="buildID")
    created_at: dt.datetime = field(name="createdAt")


class TagCount(msgspec.Struct, kw_only=True, frozen=True):
    total: int


class TagExists(msgspec.Struct, kw_only=True, frozen=True):
    exists: bool
    normalized_tag: str = field(name="normalizedTag")


class Assignment(msgspec.Struct, kw_only=True, frozen=True):
    assignment_id: str = field(name="assignmentID")
    build_id: str = field(name="buildID")
    assigned_at: dt.datetime = field(name="assignedAt")
    build_created_at: dt.datetime = field(name="buildCreatedAt")
    build_finished_at: dt.datetime | None = field(name="buildFinishedAt")


class TagGroup(msgspec.Struct, kw_only=True, frozen=True):
    tag: str
    assignments: list[Assignment]
    has_more: bool = field(name="hasMore")


class TagGroups(msgspec.Struct, kw_only=True, frozen=True):
    tags: list[TagGroup]
    next_cursor: str | None = field(name="nextCursor")


class AssignmentPage(msgspec.Struct, kw_only=True, frozen=True):
    data: list[Assignment]
    next_cursor: str | None = field(name="nextCursor")


class TemplateUpdate(Record, frozen=True):
    public: bool | None = None


class TemplateNames(msgspec.Struct, kw_only=True, frozen=True):
    names: list[str]


class ImportedImage(msgspec.Struct, kw_only=True, frozen=True):
    """The response of an image import; ``name`` is the value for ``fromImage``."""

    name: str
    digest: str
