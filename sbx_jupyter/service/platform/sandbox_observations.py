"""Routes for metrics and logs of sandboxes (interface 1.3: S15 to S18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.engine.state.logs import LogFilter
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.platform import SandboxLogEntry, SandboxMetric
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_BULK: Final = 100
_SECONDS: Final = {"type": "integer", "format": "int64", "minimum": 0}
_LEVELS: Final = ("debug", "info", "warn", "error")


class MetricsHandler(PlatformHandler):
    """``/sandboxes/{id}/metrics``."""

    @operation(
        "List the metrics of a sandbox over time (S15)",
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
        "Get the latest metrics of several sandboxes (S16)",
        answers={200: dict[str, dict[str, SandboxMetric]]},
        errors=COMMON_ERRORS,
        query=(
            Parameter(
                "sandbox_ids",
                {"type": "array", "items": {"type": "string"}, "maxItems": _MAX_BULK},
                "Ids, separated by commas.",
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
            if not self.service.engine.sandboxes.is_usable(sandbox_id):
                continue
            if (latest := self.service.engine.observations.history.latest(sandbox_id)) is not None:
                found[sandbox_id] = latest
        self.answer({"sandboxes": found})


class LogLine(msgspec.Struct, kw_only=True, frozen=True):
    """One log line of the old form; ``line`` is a JSON object as text."""

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
        "Get the log of a sandbox, old form (S17)",
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
        "Get the log of a sandbox (S18)",
        answers={200: SandboxLogsV2},
        errors=COMMON_ERRORS,
        query=(
            Parameter("cursor", _SECONDS, "Unix milliseconds."),
            Parameter("direction", {"type": "string", "enum": ["forward", "backward"]}),
            Parameter("level", {"type": "string", "enum": list(_LEVELS)}, "The lowest level."),
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
    """Convert entries to the old form, whose lines command line clients parse as JSON objects."""
    return [
        LogLine(
            timestamp=entry.timestamp,
            line=msgspec.json.encode(
                {**entry.fields, "level": entry.level, "message": entry.message, "logger": "engine"}
            ).decode(),
        )
        for entry in entries
    ]
