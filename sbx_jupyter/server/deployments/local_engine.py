"""Finds the engine of this machine for the server process, and starts it when needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from sbx_jupyter.client.connection import bundled
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.errors import SbxError, UnavailableError, see
from sbx_jupyter.protocol.locations import connection_file_of, default_data_dir

if TYPE_CHECKING:
    from logging import Logger

    from sbx_jupyter.protocol.locations import ConnectionFile

RETRY_START_AFTER: Final = 5.0
"""Seconds between a failed start of the engine and the next try."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings by which the local connection finds or starts its engine; ``timeout`` in seconds."""

    data_dir: str = ""
    auto_start: bool = True
    timeout: float = bundled.START_TIMEOUT


class LocalEngine:
    """The engine of one data directory, shared by everything in this server that uses it."""

    def __init__(self, settings: EngineSettings, *, log: Logger) -> None:
        self._settings = settings
        self._log = log
        self._finding = threading.Lock()
        self._found: ConnectionFile | None = None
        self._failed_at = 0.0
        self.state: Literal["stopped", "starting", "running", "failed"] = "stopped"
        """The state when the engine was last looked for."""
        self.failure: SbxError | None = None
        """Why the last start failed, or why none can succeed on this system."""
        try:
            bundled.check_platform()
        except UnavailableError as error:
            self.state, self.failure = "failed", error

    @property
    def data_dir(self) -> Path:
        """The data directory of the engine."""
        given = self._settings.data_dir
        return Path(given).absolute() if given else default_data_dir()

    async def find(self) -> ConnectionConfig:
        """Return the address and key of the running engine; starts one if ``auto_start`` is on.

        Raises ``UnavailableError`` when none runs and none can be started.
        """
        return ConnectionConfig.from_connection_file(await asyncio.to_thread(self.find_blocking))

    def address(self, *, fresh: bool) -> tuple[str, int]:
        """Return host and port of the engine, like ``find``; for threads, since it blocks.

        Unless ``fresh``, the engine that was found last is not asked whether it answers.
        """
        found = self._found
        if fresh or found is None or found != bundled.read_connection_file(self._file):
            found = self.find_blocking()
        parts = urlsplit(found.url)
        return str(parts.hostname), int(parts.port or 80)

    def find_blocking(self) -> ConnectionFile:
        """Like ``find``, for threads."""
        with self._finding:
            if self.failure and time.monotonic() - self._failed_at < RETRY_START_AFTER:
                raise UnavailableError(self.failure.message)
            self.state, self.failure = "starting", None
            try:
                found = self._find()
            except (SbxError, OSError) as e:
                message = e.message if isinstance(e, SbxError) else f"cannot start the engine: {e}"
                self.failure, self._failed_at = UnavailableError(message), time.monotonic()
                self.state = "failed"
                self._log.error("%s", message)
                raise self.failure from e
            self.state, self._found = "running", found
            return found

    def stop(self) -> None:
        """Tell the engine to end its sandboxes and itself, if one runs; blocks for a moment."""
        found = bundled.find_engine(self.data_dir)
        if found is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGTERM)

    def is_stopped(self) -> bool:
        """Whether no engine has a connection file, which it removes when it is stopped."""
        return not self._file.exists()

    def note_stopped(self) -> None:
        """Record that the engine was stopped on purpose."""
        self.state, self.failure = "stopped", None

    @property
    def _file(self) -> Path:
        return connection_file_of(self.data_dir)

    def _find(self) -> ConnectionFile:
        """Find or start the engine; blocks."""
        bundled.check_platform()
        data_dir = self.data_dir
        if self._settings.auto_start:
            return bundled.ensure_engine(data_dir, self._settings.timeout)
        if (found := bundled.find_engine(data_dir)) is None:
            raise UnavailableError(
                "no engine is running and c.SbxExtension.auto_start is off;"
                f" start one with: jupyter sbx engine{see('containers')}"
            )
        return found
