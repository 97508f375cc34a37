"""Takes build requests, runs the builds in turn and remembers what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.builds import output
from sbx_jupyter.engine.builds.build import BuildError, BuildRun
from sbx_jupyter.engine.builds.requests import check_start, check_template_request
from sbx_jupyter.engine.builds.tags import with_tags
from sbx_jupyter.engine.layers import sync
from sbx_jupyter.engine.records import BuildRow, TemplateRow, now
from sbx_jupyter.engine.references import full_name, parse_reference
from sbx_jupyter.engine.store import Batch
from sbx_jupyter.engine.whole import whole
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NoSpaceError,
    NotFoundError,
    ResourceExhaustedError,
)
from sbx_jupyter.protocol.access import random_id
from sbx_jupyter.protocol.templates import (
    BuildInfo,
    BuildLogEntry,
    BuildReason,
    TemplateAnswer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.builds.build import Outcome, Tools
    from sbx_jupyter.protocol.templates import BuildStart, Level, TemplateRequest

_log = logging.getLogger(__name__)

_MAX_WAITING: Final = 1000
_KEPT_LOGS: Final = 16
_MAX_REASON_ENTRIES: Final = 100
_RETRIES: Final = 30
_STOPPED: Final = "the engine stopped"


@dataclass(slots=True)
class _Job:
    """A build that runs or waits for its turn."""

    template_id: str
    log: output.BuildLog
    task: asyncio.Task[None] | None = None
    why: str = _STOPPED
    """What is said when the task is cancelled."""


class Builder:
    """All builds of one engine."""

    def __init__(self, tools: Tools) -> None:
        context = tools.context
        self._tools = tools
        self._context = context
        self._store = context.store
        self._folder = context.data_dir.path / "builds"
        self._turns = asyncio.Semaphore(context.config.parallel_builds)
        self._starting = asyncio.Lock()
        self._jobs: dict[str, _Job] = {}
        self._logs: dict[str, list[BuildLogEntry]] = {}

    async def open(self) -> None:
        """End the builds that an engine before this one did not finish."""
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._tools.uploads.open)
        for build in self._store.builds:
            if build.status == "building":
                await self._settle_failed(build, BuildError(_STOPPED, None), None)

    async def stop(self) -> None:
        """Cancel what runs; it ends as failed."""
        await self._cancel(list(self._jobs.values()), _STOPPED)

    # T1

    async def request(self, request: TemplateRequest) -> TemplateAnswer:
        """Announce a build of a new template or of one that there is (T1).

        Raises ``InvalidArgumentError``, ``AlreadyExistsError`` for the name of a stock template,
        ``ResourceExhaustedError`` when there are too many builds.
        """
        wanted = check_template_request(request, self._context.config)
        self._check_room()
        if sum(build.status == "waiting" for build in self._store.builds) >= _MAX_WAITING:
            raise ResourceExhaustedError("too many builds wait to be started")
        at = now()
        try:
            template = self._tools.catalog.find(wanted.reference)
        except NotFoundError:
            template = TemplateRow(
                template_id=random_id(20),
                aliases=(wanted.reference.name,),
                created_at=at,
                updated_at=at,
            )
        if template.is_stock:
            raise AlreadyExistsError(f"'{wanted.reference.name}' is the name of a stock template")
        build = BuildRow(
            build_id=str(uuid.uuid4()),
            template_id=template.template_id,
            created_at=at,
            updated_at=at,
            cpu_count=wanted.cpu_count,
            memory_mb=wanted.memory_mb,
            disk_size_mb=wanted.disk_size_mb,
            tags=wanted.tags,
        )
        template = replace(template, is_snapshot=False, updated_at=at)
        await self._context.commit(Batch().put(template).put(build))
        return TemplateAnswer(
            template_id=template.template_id,
            build_id=build.build_id,
            public=template.public,
            names=[full_name(alias) for alias in template.aliases],
            tags=list(wanted.tags),
            aliases=list(template.aliases),
        )

    def _check_room(self) -> None:
        maximum = self._context.config.max_builds
        if len(self._jobs) >= maximum:
            raise ResourceExhaustedError(
                f"You have reached the maximum number of concurrent template builds ({maximum})"
            )

    # T4

    async def start(self, template_id: str, build_id: str, request: BuildStart) -> None:
        """Start a build that waits (T4); other builds of the template are cancelled.

        Raises ``NotFoundError``, ``InvalidArgumentError``, ``ResourceExhaustedError``.
        """
        check_start(request)
        async with self._starting:
            await self._start(template_id, build_id, request)

    async def _start(self, template_id: str, build_id: str, request: BuildStart) -> None:
        template, build = self.find(template_id, build_id)
        if build.status != "waiting" or build_id in self._jobs:
            raise InvalidArgumentError("build is not in waiting state")
        others = [job for job in self._jobs.values() if job.template_id == template.template_id]
        if not others:
            self._check_room()
        job = _Job(template.template_id, output.BuildLog(self._path(build_id)))
        self._jobs[build_id] = job
        build = replace(build, status="building", updated_at=now())
        try:
            await self._context.commit(Batch().put(build))
        except BaseException:
            del self._jobs[build_id]
            raise
        work = self._run(job, template, build, request)
        job.task = asyncio.create_task(work, name=f"sbx-build-{build_id}")
        await self._cancel(others, "cancelled: a newer build of this template was started")

    async def remove(self, reference: str) -> None:
        """Cancel the builds of a template and remove it (T16); see ``Catalog.remove``."""
        template = self._tools.catalog.find(parse_reference(reference))
        builds = [
            build.build_id
            for build in self._store.builds
            if build.template_id == template.template_id
        ]
        self._tools.catalog.check_removable(parse_reference(reference), template)
        jobs = [self._jobs[build_id] for build_id in builds if build_id in self._jobs]
        await self._cancel(jobs, "cancelled: the template is removed")
        await self._tools.catalog.remove(reference)
        for build_id in builds:
            self._logs.pop(build_id, None)
            await asyncio.to_thread(self._path(build_id).unlink, missing_ok=True)

    async def _cancel(self, jobs: list[_Job], why: str) -> None:
        tasks = []
        # A task that never ran at all would be gone without a word about its build.
        await asyncio.sleep(0)
        for job in jobs:
            if job.task is not None:
                job.why = why
                job.task.cancel()
                tasks.append(job.task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(
        self, job: _Job, template: TemplateRow, build: BuildRow, request: BuildStart
    ) -> None:
        """One build from its turn to its end; it always ends as ready or failed."""
        meters = self._context.meters
        async with contextlib.AsyncExitStack() as held:
            run = BuildRun(self._tools, template, build, request, job.log, held)
            try:
                async with self._turns:
                    started = time.monotonic()
                    outcome = await run.run()
                    await whole(self._settle_ready(build, run, outcome))
                    meters.operation_took("build", time.monotonic() - started)
            except asyncio.CancelledError:
                meters.operation_failed("build", "canceled")
                await whole(self._settle_failed(build, BuildError(job.why, None), run))
            except BuildError as error:
                meters.operation_failed("build", "failed_precondition")
                await whole(self._settle_failed(build, error, run))
            except Exception:
                _log.exception("build %s failed", build.build_id)
                meters.operation_failed("build", "internal")
                error = BuildError("internal error", run.phase)
                await whole(self._settle_failed(build, error, run))
            finally:
                self._keep_log(build.build_id, job.log.entries)
                self._jobs.pop(build.build_id, None)
        await asyncio.to_thread(self._tools.uploads.prune)
        await self._tools.cache.trim()

    async def _settle_ready(self, build: BuildRow, run: BuildRun, outcome: Outcome) -> None:
        """Bring the layers to the disk, then say that the build is ready."""
        await asyncio.to_thread(sync, self._context.data_dir.layers)
        template = self._store.templates.get(build.template_id)
        if template is None:
            raise BuildError("the template was removed", None)
        at = now()
        build = replace(
            build,
            status="ready",
            updated_at=at,
            finished_at=at,
            base=outcome.ground.base,
            layers=self._context.layers.shorten(outcome.ground.layers),
            default_user=outcome.setting.user,
            default_cwd=outcome.setting.workdir,
            envs=outcome.setting.envs,
            start_command=outcome.start_command,
            ready_command=outcome.ready_command,
        )
        batch = Batch().put(build).put(with_tags(template, build.tags, build.build_id))
        self._tools.cache.note(batch, run.used)
        try:
            await self._context.commit(batch)
        except NoSpaceError as error:
            raise BuildError(f"no space left on the disk: {error.message}", run.phase) from error
        self._context.flattener.consider(build.layers)

    async def _settle_failed(
        self, build: BuildRow, error: BuildError, run: BuildRun | None
    ) -> None:
        current = self._store.builds.get(build.build_id)
        if current is None or current.status != "building":
            return  # it ended, or was removed, just before it was cancelled
        at = now()
        entry = BuildLogEntry(timestamp=at, message=error.message, level="error", step=error.step)
        try:
            if run is not None:
                run.log.entries.append(entry)
                await run.log.save()
                await asyncio.to_thread(sync, self._context.data_dir.layers)
            else:
                await asyncio.to_thread(output.append, self._path(build.build_id), [entry])
        except OSError:
            _log.exception("the log of build %s could not be written", build.build_id)
        build = replace(
            build,
            status="error",
            updated_at=at,
            finished_at=at,
            reason=error.message,
            reason_step=error.step,
        )
        for attempt in range(_RETRIES):
            batch = Batch().put(build)
            if run is not None and not attempt:
                self._tools.cache.note(batch, run.used)
            try:
                return await self._context.commit(batch)
            except NoSpaceError as full:
                # The layers go when this build lets go of them; others may free space as well.
                _log.warning("the end of build %s cannot be stored: %s", build.build_id, full)
                if run is not None:
                    await run.held.aclose()
                await asyncio.sleep(1)

    # T5 and T6

    async def status(
        self, template_id: str, build_id: str, offset: int, limit: int, level: Level | None
    ) -> BuildInfo:
        """Where a build is, and a page of its log (T5); raises ``NotFoundError``."""
        template, build = self.find(template_id, build_id)
        entries = await self._entries(build)
        # Read again: the last entries are there before the row says that the build has ended.
        build = self._store.builds.get(build_id) or build
        if build_id not in self._jobs and build.status != "waiting":
            entries = await self._entries(build)
        page = output.at_least(entries, level)[offset : offset + limit]
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
        """The whole log of a build (T6); raises ``NotFoundError``."""
        return await self._entries(self.find(template_id, build_id)[1])

    def find(self, template_id: str, build_id: str) -> tuple[TemplateRow, BuildRow]:
        """A build of a template, which may also be named; raises ``NotFoundError``."""
        template = self._tools.catalog.find(parse_reference(template_id))
        build = self._store.builds.get(build_id)
        if build is None or build.template_id != template.template_id:
            raise NotFoundError(f"build '{build_id}' not found")
        return template, build

    async def _entries(self, build: BuildRow) -> list[BuildLogEntry]:
        job = self._jobs.get(build.build_id)
        if job is not None:
            return job.log.entries
        known = self._logs.get(build.build_id)
        if known is None:
            known = await asyncio.to_thread(output.load, self._path(build.build_id))
            if build.status in ("ready", "error"):
                self._keep_log(build.build_id, known)
        return known

    def _keep_log(self, build_id: str, entries: list[BuildLogEntry]) -> None:
        self._logs.pop(build_id, None)
        self._logs[build_id] = entries
        while len(self._logs) > _KEPT_LOGS:
            del self._logs[next(iter(self._logs))]

    def _path(self, build_id: str) -> Path:
        return self._folder / f"{build_id}.jsonl"


def _reason(build: BuildRow, entries: list[BuildLogEntry]) -> BuildReason:
    grave = [
        entry
        for entry in output.at_least(entries, "warn")
        if build.reason_step is None or entry.step == build.reason_step
    ]
    return BuildReason(
        message=build.reason or "the build failed",
        step=build.reason_step,
        log_entries=grave[-_MAX_REASON_ENTRIES:],
    )
