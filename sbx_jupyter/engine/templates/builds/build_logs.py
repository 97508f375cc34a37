"""The status and the logs of builds, for clients (T5 and T6)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.templates.builds import build_log
from sbx_jupyter.engine.templates.catalogue import check_changeable
from sbx_jupyter.engine.templates.references import parse_reference
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.protocol.templates import BuildInfo, BuildLogEntry, BuildReason

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.protocol.templates import Level

_log = logging.getLogger(__name__)

_KEPT_LOGS: Final = 16
_MAX_REASON_ENTRIES: Final = 100


class BuildLogs:
    """The logs of all builds: of running ones in memory, of the others in files."""

    def __init__(self, store: Store, catalogue: Catalogue, folder: Path) -> None:
        self._store = store
        self._catalogue = catalogue
        self._folder = folder
        self._running: dict[str, build_log.BuildLog] = {}
        self._logs: dict[str, list[BuildLogEntry]] = {}

    def path(self, build_id: str) -> Path:
        """The log file of a build."""
        return self._folder / f"{build_id}.jsonl"

    def begin(self, build_id: str) -> build_log.BuildLog:
        """Make the log of a build that starts."""
        log = build_log.BuildLog(self.path(build_id))
        self._running[build_id] = log
        return log

    def end(self, build_id: str) -> None:
        """Note that a build has ended; its log stays readable."""
        log = self._running.pop(build_id, None)
        if log is not None:
            self._keep(build_id, log.entries)

    def forget(self, build_id: str) -> None:
        """Remove the log of a build; blocking."""
        self._running.pop(build_id, None)
        self._logs.pop(build_id, None)
        self.path(build_id).unlink(missing_ok=True)

    async def end_interrupted(self, build: BuildRow, entry: BuildLogEntry) -> None:
        """Add the last entry to the log of a build that an earlier engine began. ``OSError``."""
        await asyncio.to_thread(_add_last, self.path(build.build_id), entry)

    async def status(
        self, template_id: str, build_id: str, offset: int, limit: int, level: Level | None
    ) -> BuildInfo:
        """The status of a build and a page of its log (T5).

        Raises ``NotFoundError``, and ``PermissionDeniedError`` for a template of somebody else.
        """
        template, build = self.find(template_id, build_id)
        check_changeable(template)
        entries = await self._entries(build)
        # Read again: a build saves its last entries before its row says that it has ended.
        build = self._store.builds.get(build_id) or build
        if build_id not in self._running and build.status != "waiting":
            entries = await self._entries(build)
        page = build_log.filter_by_level(entries, level)[offset : offset + limit]
        info = BuildInfo(
            template_id=template.template_id,
            build_id=build_id,
            status=build.status,
            logs=[],
            log_entries=page,
        )
        if build.status == "error":
            info = replace(info, reason=_reason(build, entries))
        return info

    async def entries(self, template_id: str, build_id: str) -> list[BuildLogEntry]:
        """The whole log of a build (T6); raises as ``status``."""
        template, build = self.find(template_id, build_id)
        check_changeable(template)
        return await self._entries(build)

    async def _entries(self, build: BuildRow) -> list[BuildLogEntry]:
        log = self._running.get(build.build_id)
        if log is not None:
            try:
                await log.save()
            except OSError:
                _log.warning("the log of build %s cannot be saved", build.build_id)
            return log.saved
        known = self._logs.get(build.build_id)
        if known is None:
            known = await asyncio.to_thread(build_log.LogFile(self.path(build.build_id)).load)
            if build.status in ("ready", "error"):
                self._keep(build.build_id, known)
        return known

    def _keep(self, build_id: str, entries: list[BuildLogEntry]) -> None:
        self._logs.pop(build_id, None)
        self._logs[build_id] = entries
        while len(self._logs) > _KEPT_LOGS:
            del self._logs[next(iter(self._logs))]

    def find(self, template_id: str, build_id: str) -> tuple[TemplateRow, BuildRow]:
        """A build and its template, found by id or name; raises ``NotFoundError``."""
        template = self._catalogue.find(parse_reference(template_id))
        build = self._store.builds.get(build_id)
        if build is None or build.template_id != template.template_id:
            raise NotFoundError(f"build '{build_id}' not found")
        return template, build


def _add_last(path: Path, entry: BuildLogEntry) -> None:
    """Add the last entry to the log of an earlier engine; blocking."""
    file = build_log.LogFile(path)
    file.load()
    file.append([entry])


def _reason(build: BuildRow, entries: list[BuildLogEntry]) -> BuildReason:
    severe = [
        entry
        for entry in build_log.filter_by_level(entries, "warn")
        if build.reason_step is None or entry.step == build.reason_step
    ]
    return BuildReason(
        message=build.reason or "the build failed",
        step=build.reason_step,
        log_entries=severe[-_MAX_REASON_ENTRIES:],
    )
