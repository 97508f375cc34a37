"""Formats the engine's log: one JSON object per line, with request ids, without credentials."""

from __future__ import annotations

import datetime as dt
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.service.log_file import LogFile

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.service.context import RoutedRequest, Service

_requests = logging.getLogger("sbx_jupyter.requests")

_MAX_PATH: Final = 512
_MAX_MESSAGE: Final = 8 * 1024
_MAX_TRACE: Final = 32 * 1024


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MAX_MESSAGE],
        }
        if (sandbox_id := getattr(record, "sandbox_id", None)) is not None:
            line["sandbox"] = sandbox_id
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-_MAX_TRACE:]
        return msgspec.json.encode(line).decode()


def open_log(directory: Path, level: int) -> logging.Handler:
    """Open the log file of an engine; raises ``OSError``."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = LogFile(directory / "engine.jsonl", deferred=_requests.name)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    return handler


def new_request_id() -> str:
    """An id for the log lines of one request."""
    return secrets.token_hex(8)


def note_request(
    service: Service, request: RoutedRequest, surface: str, status: int, started: float
) -> None:
    """Count and log one answered request; without its query, which may have a signature."""
    seconds = time.monotonic() - started
    service.counters.count_request(surface, request.method or "", status, seconds)
    if not _requests.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {
        "request": request.request_id,
        "surface": surface,
        "method": (request.method or "")[:16],
        "path": request.path[:_MAX_PATH],
        "status": status,
        "ms": round(seconds * 1000, 2),
    }
    if request.route is not None:
        fields["sandbox"] = request.route.sandbox_id
        fields["port"] = request.route.port
    _requests.info("request", extra={"fields": fields})
