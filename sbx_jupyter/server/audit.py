"""The audit log of the Jupyter server: which user did what to which sandbox, from where.

The engine's own audit log knows the owner of a key; this one knows the user and the browser.
"""

from __future__ import annotations

import datetime as dt
import logging
import logging.handlers
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_server.base.handlers import JupyterHandler

MAX_SIZE: Final = 16 * 1024 * 1024
KEPT_FILES: Final = 4
_MAX_TEXT: Final = 512
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class AuditLog:
    """Appends JSON lines to a file with mode 0600, of a limited size."""

    def __init__(self, path: Path) -> None:
        """Raises ``OSError``."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _PrivateFile(path, maxBytes=MAX_SIZE, backupCount=KEPT_FILES, encoding="utf-8")

    def note(self, handler: JupyterHandler, action: str, sandbox_id: str, **fields: Any) -> None:
        """Write who did ``action`` to a sandbox; without the query, which may hold a token."""
        user = handler.current_user
        record = {
            "time": dt.datetime.now(dt.UTC).isoformat(),
            "user": None if user is None else user.username,
            "action": action,
            "sandbox": sandbox_id or None,
            "from": handler.request.remote_ip,
            **fields,
        }
        line = {
            name: value[:_MAX_TEXT] if isinstance(value, str) else value
            for name, value in record.items()
            if value is not None
        }
        self._file.handle(logging.makeLogRecord({"msg": msgspec.json.encode(line).decode()}))

    def note_request(self, handler: JupyterHandler, sandbox_id: str) -> None:
        """Write a request that changes something, with its route and status."""
        method = handler.request.method or ""
        if method not in _READING:
            path = handler.request.path.rpartition("/sbx/api/")[2]
            self.note(handler, f"{method} {path}", sandbox_id, status=handler.get_status())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner reads."""

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding)
