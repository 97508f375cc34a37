"""The records of the runtime API: entries, processes, readings (interface 3.4, 3.5 and 4)."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Final, TypeAlias

import msgspec

from sbx_jupyter.protocol.messages import Message

RUNTIME_PORT: Final = 49983
INTERPRETER_PORT: Final = 49999
PROXY_PORT: Final = 49982
"""Port of the egress proxy inside the sandbox; never reachable from outside."""

FILE: Final = "FILE_TYPE_FILE"
DIRECTORY: Final = "FILE_TYPE_DIRECTORY"
UNSPECIFIED: Final = "FILE_TYPE_UNSPECIFIED"

Uint32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Enumeration: TypeAlias = Annotated[str | int, "enumeration"]
"""A value by its name or by its number."""

EVENT_CREATE: Final = "EVENT_TYPE_CREATE"
EVENT_WRITE: Final = "EVENT_TYPE_WRITE"
EVENT_REMOVE: Final = "EVENT_TYPE_REMOVE"
EVENT_RENAME: Final = "EVENT_TYPE_RENAME"
EVENT_CHMOD: Final = "EVENT_TYPE_CHMOD"


class Empty(Message, frozen=True):
    """The message without fields."""


# filesystem.Filesystem


class EntryInfo(Message, frozen=True):
    """One file, directory or link (interface 3.4, "EntryInfo values")."""

    name: str
    type: str
    path: str
    size: int = 0
    mode: int = 0
    permissions: str = ""
    owner: str = ""
    group: str = ""
    modified_time: dt.datetime | None = None
    symlink_target: str | None = None
    metadata: dict[str, str] | None = None
    is_symlink: bool = False

    @property
    def is_link(self) -> bool:
        """Whether it is a link; deployments say so in either field."""
        return self.symlink_target is not None or self.is_symlink

    def _repr_html_(self) -> str:
        from sbx_jupyter.display import reports, text

        kind = self.type.removeprefix("FILE_TYPE_").lower()
        details = [("size", text.size(self.size))] if kind == "file" else []
        if self.symlink_target is not None:
            details.append(("points to", self.symlink_target))
        if self.modified_time is not None:
            details.append(("modified", f"{self.modified_time:%Y-%m-%d %H:%M:%S}"))
        details.append(("permissions", f"{self.permissions} {self.owner} {self.group}".strip()))
        return reports.entry(self.name, kind, self.path, details)


class PathRequest(Message, frozen=True):
    path: str = ""


class ListDirRequest(Message, frozen=True):
    path: str = ""
    depth: Uint32 = 0


class MoveRequest(Message, frozen=True):
    source: str = ""
    destination: str = ""


class EntryResponse(Message, frozen=True):
    entry: EntryInfo


class ListDirResponse(Message, frozen=True):
    entries: list[EntryInfo] = []


class WatchDirRequest(Message, frozen=True):
    path: str = ""
    recursive: bool = False
    include_entry: bool = False
    allow_network_mounts: bool = False


class FilesystemEvent(Message, frozen=True):
    name: str
    type: str
    entry: EntryInfo | None = None


class WatchDirResponse(Message, frozen=True):
    start: Empty | None = None
    filesystem: FilesystemEvent | None = None
    keepalive: Empty | None = None


class CreateWatcherResponse(Message, frozen=True):
    watcher_id: str


class WatcherRequest(Message, frozen=True):
    watcher_id: str = ""


class WatcherEventsResponse(Message, frozen=True):
    events: list[FilesystemEvent] = []


# process.Process


class ProcessConfig(Message, frozen=True):
    cmd: str = ""
    args: list[str] = []
    envs: dict[str, str] = {}
    cwd: str | None = None


class PtySize(Message, frozen=True):
    cols: Uint32 = 0
    rows: Uint32 = 0


class Pty(Message, frozen=True):
    size: PtySize = PtySize()


class ProcessSelector(Message, frozen=True):
    pid: Uint32 | None = None
    tag: str | None = None


class ProcessInfo(Message, frozen=True):
    config: ProcessConfig
    pid: int
    tag: str | None = None


class ListProcessesResponse(Message, frozen=True):
    processes: list[ProcessInfo] = []


class StartRequest(Message, frozen=True):
    process: ProcessConfig = ProcessConfig()
    pty: Pty | None = None
    tag: str | None = None
    stdin: bool | None = None


class ConnectRequest(Message, frozen=True):
    process: ProcessSelector = ProcessSelector()


class UpdateRequest(Message, frozen=True):
    process: ProcessSelector = ProcessSelector()
    pty: Pty | None = None


class ProcessInput(Message, frozen=True):
    stdin: bytes | None = None
    pty: bytes | None = None


class SendInputRequest(Message, frozen=True):
    process: ProcessSelector = ProcessSelector()
    input: ProcessInput = ProcessInput()


class SendSignalRequest(Message, frozen=True):
    process: ProcessSelector = ProcessSelector()
    signal: Enumeration = 0


class StreamInputStart(Message, frozen=True):
    process: ProcessSelector = ProcessSelector()


class StreamInputData(Message, frozen=True):
    input: ProcessInput = ProcessInput()


class StreamInputRequest(Message, frozen=True):
    start: StreamInputStart | None = None
    data: StreamInputData | None = None
    keepalive: Empty | None = None


class StartEvent(Message, frozen=True):
    pid: int


class DataEvent(Message, frozen=True):
    stdout: bytes | None = None
    stderr: bytes | None = None
    pty: bytes | None = None


class EndEvent(Message, frozen=True):
    exit_code: int = 0
    exited: bool = False
    status: str = ""
    error: str | None = None


class ProcessEvent(Message, frozen=True):
    """Exactly one member is set, and ``sequence`` beside ``data`` of a replayed terminal.

    ``sequence`` is the number of bytes of output before this piece. It is sent only to clients that
    ask for it with ``Sbx-Replay-From``.
    """

    start: StartEvent | None = None
    data: DataEvent | None = None
    end: EndEvent | None = None
    keepalive: Empty | None = None
    sequence: int | None = None


class ProcessEventResponse(Message, frozen=True):
    event: ProcessEvent


# plain HTTP


class WrittenFile(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """One element of the answer of ``POST /files`` (interface 4.5) and ``/files/compose`` (4.6)."""

    path: str
    name: str
    type: str
    metadata: dict[str, str] | None = None


class ComposeRequest(msgspec.Struct, kw_only=True, frozen=True):
    source_paths: list[str]
    destination: str
    username: str | None = None


class Reading(msgspec.Struct, kw_only=True, frozen=True):
    """One set of metrics, as ``GET /metrics`` answers it (interface 4.3); sizes in bytes.

    ``cpu_ns``, an addition, is the processor time so far; 0 where it is not known.
    """

    ts: int
    cpu_count: int
    cpu_used_pct: float
    mem_total_mib: int
    mem_used_mib: int
    mem_total: int
    mem_used: int
    mem_cache: int
    disk_used: int
    disk_total: int
    cpu_ns: int = 0
