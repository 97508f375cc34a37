"""Pause, fork, lengthen, cut off and look into sandboxes (interface 1.3: S10 to S18)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.engine.state.logs import LogFilter
from sbx_jupyter.errors import InvalidArgumentError, SbxError, UnavailableError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.platform import (
    Error,
    ForkRequest,
    ForkResult,
    ListedSandbox,
    MetadataRequest,
    NetworkConfig,
    PauseRequest,
    RefreshRequest,
    SandboxLogEntry,
    SandboxMetric,
    TimeoutRequest,
)
from sbx_jupyter.service.answers import platform_status
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.engine.state.rows import SandboxRow

_MAX_FORKS: Final = 100
_HEALTH_TIMEOUT: Final = 5.0
_MAX_BULK: Final = 100
_MIN_REFRESH: Final = 15
_MAX_REFRESH: Final = 3600
_MAX_TIMEOUT: Final = 2**31 - 1
_SECONDS: Final = {"type": "integer", "format": "int64", "minimum": 0}
_LEVELS: Final = ("debug", "info", "warn", "error")


class PauseHandler(PlatformHandler):
    """``/sandboxes/{id}/pause``."""

    @operation(
        "Pause a sandbox (S10)",
        body=PauseRequest,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(PauseRequest, optional=True)
        sandbox_id = self.sandbox_id(sandbox_id)
        if request.require_healthy_guest:
            await self._check_health(sandbox_id)
        await self.service.engine.sandboxes.pause(sandbox_id, request.memory)
        self.answer(status=204)

    async def _check_health(self, sandbox_id: str) -> None:
        """Raise ``UnavailableError`` when the sandbox runs and does not answer."""
        sandbox = self.service.engine.sandboxes.find_live(sandbox_id)
        if sandbox is None:
            return  # the pause itself knows why
        try:
            async with asyncio.timeout(_HEALTH_TIMEOUT):
                await sandbox.files.stat("/")
        except (TimeoutError, UnavailableError):
            raise UnavailableError("the sandbox does not answer and was not paused") from None


class ForkHandler(PlatformHandler):
    """``/sandboxes/{id}/fork``."""

    @operation(
        "Start copies of a running sandbox (S11)",
        body=ForkRequest,
        is_body_optional=True,
        answers={201: list[ForkResult]},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(ForkRequest, optional=True)
        if not 1 <= request.count <= _MAX_FORKS:
            raise InvalidArgumentError(
                f"validation error: count must be between 1 and {_MAX_FORKS}"
            )
        if not 0 <= request.timeout <= _MAX_TIMEOUT:
            raise InvalidArgumentError("validation error: timeout must be at least 0")
        forks = await self.service.engine.forks.create(
            self.sandbox_id(sandbox_id), request.timeout, request.count
        )
        self.answer([self._result(fork) for fork in forks], 201)

    def _result(self, fork: SandboxRow | SbxError) -> ForkResult:
        if isinstance(fork, SbxError):
            return ForkResult(error=Error(code=platform_status(fork), message=fork.message))
        return ForkResult(sandbox=fork.to_sandbox(self.service.settings.domain))


class MetadataHandler(PlatformHandler):
    """``/engine/sandboxes/{id}``: an addition, for instance to rename a sandbox."""

    @operation(
        "Change a sandbox's metadata",
        body=MetadataRequest,
        answers={200: ListedSandbox},
        errors=(*COMMON_ERRORS, 409),
    )
    async def patch(self, sandbox_id: str) -> None:
        request = self.read_body(MetadataRequest)
        row = await self.service.engine.sandboxes.set_metadata(
            self.sandbox_id(sandbox_id), request.metadata
        )
        self.answer(row.to_listed())


class TimeoutHandler(PlatformHandler):
    """``/sandboxes/{id}/timeout``."""

    @operation(
        "Set when a sandbox ends (S12)",
        body=TimeoutRequest,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def post(self, sandbox_id: str) -> None:
        timeout = min(max(0, self.read_body(TimeoutRequest).timeout), _MAX_TIMEOUT)
        await self.service.engine.sandboxes.set_timeout(self.sandbox_id(sandbox_id), timeout)
        self.answer(status=204)


class RefreshHandler(PlatformHandler):
    """``/sandboxes/{id}/refreshes``."""

    @operation(
        "Keep a sandbox alive (S13)",
        body=RefreshRequest,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def post(self, sandbox_id: str) -> None:
        duration = self.read_body(RefreshRequest, optional=True).duration
        if duration is not None and not 0 <= duration <= _MAX_REFRESH:
            raise InvalidArgumentError(
                f"validation error: duration must be between 0 and {_MAX_REFRESH}"
            )
        await self.service.engine.sandboxes.refresh(
            self.sandbox_id(sandbox_id), max(duration or 0, _MIN_REFRESH)
        )
        self.answer(status=204)


class NetworkHandler(PlatformHandler):
    """``/sandboxes/{id}/network``."""

    @operation(
        "Replace the egress rules of a sandbox (S14)",
        body=NetworkConfig,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def put(self, sandbox_id: str) -> None:
        request = self.read_body(NetworkConfig, optional=True)
        await self.service.engine.sandboxes.set_network(self.sandbox_id(sandbox_id), request)
        self.answer(status=204)


class MetricsHandler(PlatformHandler):
    """``/sandboxes/{id}/metrics``."""

    @operation(
        "Readings of a sandbox over time (S15)",
        answers={200: list[SandboxMetric]},
        errors=COMMON_ERRORS,
        query=(
            Parameter("start", _SECONDS, "Unix seconds, inclusive."),
            Parameter("end", _SECONDS, "Unix seconds, inclusive."),
        ),
    )
    async def get(self, sandbox_id: str) -> None:
        start = self.query_int("start", None, minimum=0)
        end = self.query_int("end", None, minimum=0)
        if start is not None and end is not None and start > end:
            raise InvalidArgumentError("validation error: start is after end")
        self.answer(
            self.service.engine.observations.history.between(
                self.sandbox_id(sandbox_id), start, end
            )
        )


class AllMetricsHandler(PlatformHandler):
    """``/sandboxes/metrics``."""

    @operation(
        "The latest reading of several sandboxes (S16)",
        answers={200: dict[str, dict[str, SandboxMetric]]},
        errors=COMMON_ERRORS,
        query=(
            Parameter(
                "sandbox_ids",
                {"type": "array", "items": {"type": "string"}, "maxItems": _MAX_BULK},
                "Ids as a comma list.",
                required=True,
            ),
        ),
    )
    async def get(self) -> None:
        ids = self.query_list("sandbox_ids")
        if not ids:
            raise InvalidArgumentError("validation error: sandbox_ids is required")
        if len(ids) > _MAX_BULK:
            raise InvalidArgumentError(
                f"validation error: sandbox_ids has more than {_MAX_BULK} ids"
            )
        found: dict[str, SandboxMetric] = {}
        for sandbox_id in map(parse_sandbox_id, ids):
            if (latest := self.service.engine.observations.history.latest(sandbox_id)) is not None:
                found[sandbox_id] = latest
        self.answer({"sandboxes": found})


class LogLine(msgspec.Struct, kw_only=True, frozen=True):
    """One line of the old form: its text is a JSON object."""

    timestamp: Any
    line: str


class SandboxLogs(msgspec.Struct, kw_only=True, frozen=True):
    """The old form of a sandbox's log (S17)."""

    logs: list[LogLine]
    log_entries: list[SandboxLogEntry] = msgspec.field(name="logEntries")


class SandboxLogsV2(msgspec.Struct, kw_only=True, frozen=True):
    """A sandbox's log (S18)."""

    logs: list[SandboxLogEntry]


class LogsHandler(PlatformHandler):
    """``/sandboxes/{id}/logs``."""

    @operation(
        "The log of a sandbox, old form (S17)",
        answers={200: SandboxLogs},
        errors=COMMON_ERRORS,
        query=(
            Parameter("start", _SECONDS, "Unix milliseconds."),
            Parameter("limit", {"type": "integer", "minimum": 0, "maximum": 1000}),
        ),
    )
    async def get(self, sandbox_id: str) -> None:
        entries = self.service.engine.observations.logs(
            self.sandbox_id(sandbox_id),
            LogFilter(
                cursor_ms=self.query_int("start", None, minimum=0),
                direction="forward",
                limit=self.query_int("limit", 1000, minimum=0, maximum=1000),
            ),
        )
        self.answer(SandboxLogs(logs=as_lines(entries), log_entries=list(entries)))


class LogsV2Handler(PlatformHandler):
    """``/v2/sandboxes/{id}/logs``."""

    @operation(
        "The log of a sandbox (S18)",
        answers={200: SandboxLogsV2},
        errors=COMMON_ERRORS,
        query=(
            Parameter("cursor", _SECONDS, "Unix milliseconds."),
            Parameter("direction", {"type": "string", "enum": ["forward", "backward"]}),
            Parameter("level", {"type": "string", "enum": list(_LEVELS)}, "Least level."),
            Parameter("limit", {"type": "integer", "minimum": 0, "maximum": 1000}),
            Parameter("search", {"type": "string", "maxLength": 256}),
        ),
    )
    async def get(self, sandbox_id: str) -> None:
        search = self.query_text("search") or None
        if search is not None and len(search) > 256:
            raise InvalidArgumentError("validation error: search is longer than 256 characters")
        entries = self.service.engine.observations.logs(
            self.sandbox_id(sandbox_id),
            LogFilter(
                cursor_ms=self.query_int("cursor", None, minimum=0),
                direction=cast(
                    "Any", self.query_choice("direction", ("forward", "backward"), "backward")
                ),
                level=cast("Any", self.query_choice("level", _LEVELS, None)),
                limit=self.query_int("limit", 1000, minimum=0, maximum=1000),
                search=search,
            ),
        )
        self.answer(SandboxLogsV2(logs=list(entries)))


def as_lines(entries: Sequence[SandboxLogEntry]) -> list[LogLine]:
    """The old form of entries: command line clients parse each line as a JSON object."""
    return [
        LogLine(
            timestamp=entry.timestamp,
            line=msgspec.json.encode(
                {**entry.fields, "level": entry.level, "message": entry.message, "logger": "engine"}
            ).decode(),
        )
        for entry in entries
    ]
