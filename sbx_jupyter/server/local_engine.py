"""Finds the engine of this machine for the server process, and starts it when needed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client import bundled
from sbx_jupyter.client.config import ConnectionConfig
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.protocol.locations import connection_file_of, default_data_dir

if TYPE_CHECKING:
    from logging import Logger

    from sbx_jupyter.protocol.locations import ConnectionFile

RETRY_START_AFTER: Final = 5.0
"""Seconds between a failed start of the engine and the next try."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the local connection finds or starts its engine; ``timeout`` is in seconds."""

    data_dir: str = ""
    auto_start: bool = True
    timeout: float = 30.0


class LocalEngine:
    """The engine of one data directory, shared by everything in this server that uses it."""

    def __init__(self, settings: EngineSettings, *, log: Logger) -> None:
        self._settings = settings
        self._log = log
        self._failed_at = 0.0
        self.state = "stopped"
        """``stopped``, ``starting``, ``running`` or ``failed``, as it was when last looked for."""
        self.failure: SbxError | None = None
        """Why the last start failed."""

    async def find(self) -> ConnectionConfig:
        """Return the address and key of the running engine; starts one if ``auto_start`` is on.

        Raises ``UnavailableError`` when none runs and none can be started.
        """
        if self.failure and time.monotonic() - self._failed_at < RETRY_START_AFTER:
            raise UnavailableError(self.failure.message)
        self.state, self.failure = "starting", None
        try:
            found = await asyncio.to_thread(self._find)
        except (SbxError, OSError) as e:
            message = e.message if isinstance(e, SbxError) else f"cannot start the engine: {e}"
            self.failure, self._failed_at = UnavailableError(message), time.monotonic()
            self.state = "failed"
            self._log.error("%s", message)
            raise self.failure from e
        self.state = "running"
        return ConnectionConfig.from_connection_file(found)

    def is_stopped(self) -> bool:
        """Whether no engine has a connection file, which it removes when it is stopped."""
        return not connection_file_of(self._data_dir() or default_data_dir()).exists()

    def note_stopped(self) -> None:
        """Record that the engine was stopped on purpose."""
        self.state, self.failure = "stopped", None

    def _data_dir(self) -> Path | None:
        return Path(self._settings.data_dir).absolute() if self._settings.data_dir else None

    def _find(self) -> ConnectionFile:
        """Find or start the engine; blocks."""
        data_dir = self._data_dir()
        if self._settings.auto_start:
            return bundled.ensure_engine(data_dir, self._settings.timeout)
        if (found := bundled.find_engine(data_dir)) is None:
            raise UnavailableError(
                "no engine is running and c.SbxExtension.auto_start is off;"
                " start one with: jupyter sbx engine"
            )
        return found
