"""Accepts build requests, runs a limited number of builds at a time and stores their results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.tasks import finish_or_undo
from sbx_jupyter.engine.templates.builds.build import BuildError, BuildRun
from sbx_jupyter.engine.templates.builds.build_logs import BuildLogs
from sbx_jupyter.engine.templates.builds.turns import BuildTurns
from sbx_jupyter.engine.templates.catalogue import check_changeable
from sbx_jupyter.engine.templates.references import full_name, parse_reference
from sbx_jupyter.engine.templates.request_checks import check_start, check_template_request
from sbx_jupyter.engine.templates.tags import with_tags
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import (
    AbortedError,
    AlreadyExistsError,
    InvalidArgumentError,
    NoSpaceError,
    ResourceExhaustedError,
)
from sbx_jupyter.protocol.access import random_id
from sbx_jupyter.protocol.templates import (
    BuildLogEntry,
    TemplateAnswer,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.templates.builds.build import BuildResult, BuildServices
    from sbx_jupyter.engine.templates.builds.build_log import BuildLog
    from sbx_jupyter.engine.templates.references import Reference
    from sbx_jupyter.engine.templates.request_checks import BuildParameters
    from sbx_jupyter.protocol.templates import BuildStart, TemplateRequest

_log = logging.getLogger(__name__)

_MAX_ANNOUNCED: Final = 1000
"""Builds of one owner that were announced and not started."""

_RETRIES: Final = 30
_STOPPED: Final = "the engine stopped"


@dataclass(slots=True)
class _Job:
    """A build that runs or waits for its turn."""

    template_id: str
    owner: str
    tags: frozenset[str]
    log: BuildLog
    task: asyncio.Task[None] | None = None
    why: str = _STOPPED
    """The reason that a cancelled build gives."""


class Builder:
    """All builds of one engine."""

    def __init__(self, services: BuildServices) -> None:
        context = services.context
        self._services = services
        self._context = context
        self._store = context.store
        self._folder = context.data_dir.path / "builds"
        self._turns = BuildTurns(context.config.parallel_builds)
        self._starting = asyncio.Lock()
        self._jobs: dict[str, _Job] = {}
        self.logs = BuildLogs(context.store, services.catalogue, self._folder)

    async def open(self) -> None:
        """Mark the builds that an earlier engine did not finish as failed."""
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._services.uploads.open)
        for build in self._store.builds:
            if build.status == "building":
                await self._settle_failed(build, BuildError(_STOPPED, None), None)

    @property
    def is_busy(self) -> bool:
        """Whether a build runs or waits for its turn."""
        return bool(self._jobs)

    async def stop(self) -> None:
        """Cancel all builds; they end as failed."""
        await self._cancel(list(self._jobs.values()), _STOPPED)

    # T1

    async def request(
        self,
        request: TemplateRequest,
        *,
        template_id: str | None = None,
        start: BuildStart | None = None,
    ) -> TemplateAnswer:
        """Announce a build of a new or an existing template (T1).

        The older endpoints (T19) give the template by its id or give no name at all, and pass
        what is to be built as ``start``. Raises ``InvalidArgumentError``, ``AlreadyExistsError``
        for the name of a stock template, ``ResourceExhaustedError`` when there are too many builds,
        ``NotFoundError`` for an unknown id.
        """
        parameters = check_template_request(request, self._context.config, is_named=start is None)
        self._check_room(caller().owner)
        if self._count_announced(caller().owner) >= _MAX_ANNOUNCED:
            raise ResourceExhaustedError("too many builds wait to be started")
        async with self._services.catalogue.changing:
            return await self._announce(parameters, template_id, start)

    async def _announce(
        self, parameters: BuildParameters, template_id: str | None, start: BuildStart | None
    ) -> TemplateAnswer:
        template = self._find_or_make_template(parameters.reference, template_id)
        if template.is_stock:
            raise AlreadyExistsError(f"'{template.aliases[0]}' is the name of a stock template")
        at = template.updated_at
        build = BuildRow(
            build_id=str(uuid.uuid4()),
            template_id=template.template_id,
            created_at=at,
            updated_at=at,
            cpu_count=parameters.cpu_count,
            memory_mb=parameters.memory_mb,
            disk_size_mb=parameters.disk_size_mb,
            tags=parameters.tags,
            announced=start,
        )
        await self._context.commit(Batch().put(template).put(build))
        reached("build.announced")
        return TemplateAnswer(
            template_id=template.template_id,
            build_id=build.build_id,
            public=template.public,
            names=[full_name(alias) for alias in template.aliases],
            tags=list(build.tags),
            aliases=list(template.aliases),
        )

    def _find_or_make_template(
        self, reference: Reference | None, template_id: str | None
    ) -> TemplateRow:
        """The existing or new template of an announced build."""
        at = now()
        if template_id is not None:
            found = self._services.catalogue.find(parse_reference(template_id))
            if reference is not None and reference.name not in found.aliases:
                raise InvalidArgumentError(f"'{reference}' is not a name of this template")
            if not found.is_stock:
                check_changeable(found)
            return replace(found, is_snapshot=False, updated_at=at)
        if reference is not None and (found := self._services.catalogue.find_own(reference)):
            return replace(found, is_snapshot=False, updated_at=at)
        return TemplateRow(
            template_id=random_id(20),
            aliases=() if reference is None else (reference.name,),
            created_at=at,
            updated_at=at,
            owner=caller().owner,
        )

    def _count_announced(self, owner: str) -> int:
        """Count the builds of an owner's templates that were announced and not started."""
        found = (build for build in self._store.builds if build.status == "waiting")
        templates = (self._store.templates.get(build.template_id) for build in found)
        return sum(template is not None and template.owner == owner for template in templates)

    def _check_room(self, owner: str) -> None:
        maximum = self._context.config.max_builds
        if sum(job.owner == owner for job in self._jobs.values()) >= maximum:
            raise ResourceExhaustedError(
                f"You have reached the maximum number of concurrent template builds ({maximum})"
            )

    # T4

    async def start(self, template_id: str, build_id: str, request: BuildStart) -> None:
        """Start an announced build (T4); others of the template that share a tag are cancelled.

        Raises ``NotFoundError``, ``InvalidArgumentError``, ``ResourceExhaustedError``.
        """
        check_start(request)
        async with self._starting:
            await self._start(template_id, build_id, request)

    async def start_announced(self, template_id: str, build_id: str) -> None:
        """Start a build that was announced with its Dockerfile (T19); raises as ``start``."""
        async with self._starting:
            request = self.logs.find(template_id, build_id)[1].announced
            if request is None:
                raise InvalidArgumentError("the build was not announced with a Dockerfile")
            await self._start(template_id, build_id, request)

    async def _start(self, template_id: str, build_id: str, request: BuildStart) -> None:
        template, build = self.logs.find(template_id, build_id)
        check_changeable(template)
        if build.status != "waiting" or build_id in self._jobs:
            raise InvalidArgumentError("build is not in waiting state")
        others = [
            job
            for job in self._jobs.values()
            if job.template_id == template.template_id and not job.tags.isdisjoint(build.tags)
        ]
        if not others:
            self._check_room(template.owner)
        log = self.logs.begin(build_id)
        job = _Job(template.template_id, template.owner, frozenset(build.tags), log)
        self._jobs[build_id] = job
        build = replace(build, status="building", updated_at=now(), announced=None)
        try:
            await self._context.commit(Batch().put(build))
        except BaseException:
            del self._jobs[build_id]
            self.logs.end(build_id)
            raise
        reached("build.started")
        work = self._run(job, template, build, request)
        job.task = asyncio.create_task(work, name=f"sbx-build-{build_id}")
        await self._cancel(others, "cancelled: a newer build of this tag was started")

    async def cancel(self, template_id: str, build_id: str) -> None:
        """Cancel a build that runs or waits for its turn; it ends as failed.

        Raises ``NotFoundError``, ``PermissionDeniedError``, ``AbortedError`` if it does not run.
        """
        template, _ = self.logs.find(template_id, build_id)
        check_changeable(template)
        job = self._jobs.get(build_id)
        if job is None:
            raise AbortedError("the build does not run")
        await self._cancel([job], "cancelled")

    async def remove(self, reference: str) -> None:
        """Cancel the builds of a template and remove it (T16); see ``Catalogue.remove``.

        Goes on when the caller is cancelled.
        """
        await self._context.tasks.complete(self._remove(reference), "sbx-remove-template")

    async def _remove(self, reference: str) -> None:
        template = self._services.catalogue.find(parse_reference(reference))
        builds = [
            build.build_id
            for build in self._store.builds
            if build.template_id == template.template_id
        ]
        self._services.catalogue.check_removable(parse_reference(reference), template)
        jobs = [self._jobs[build_id] for build_id in builds if build_id in self._jobs]
        await self._cancel(jobs, "cancelled: the template is removed")
        await self._services.catalogue.remove(reference)
        for build_id in builds:
            await asyncio.to_thread(self.logs.forget, build_id)
        # Only the cache uses its steps now.
        await self._services.cache.trim()

    async def _cancel(self, jobs: list[_Job], why: str) -> None:
        tasks: list[asyncio.Task[None]] = []
        # A task that is cancelled before it first runs would never mark its build as failed.
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
        """Run one build when it is its turn; it always ends as ready or failed."""
        meters = self._context.meters
        async with contextlib.AsyncExitStack() as held:
            run = BuildRun(self._services, template, build, request, job.log, held)
            try:
                async with self._turns.turn(template.owner):
                    started = time.monotonic()
                    result = await run.run()
                    await finish_or_undo(self._settle_ready(build, run, result))
                    meters.operation_took("build", time.monotonic() - started)
            except asyncio.CancelledError:
                meters.operation_failed("build", "canceled")
                await finish_or_undo(self._settle_failed(build, BuildError(job.why, None), run))
            except BuildError as error:
                meters.operation_failed("build", "failed_precondition")
                await finish_or_undo(self._settle_failed(build, error, run))
            except Exception:
                # A bug: nobody awaits this task, and clients would wait forever for a build that
                # does not end. The log gets the traceback.
                _log.exception("build %s failed", build.build_id)
                meters.operation_failed("build", "internal")
                error = BuildError("internal error", run.phase)
                await finish_or_undo(self._settle_failed(build, error, run))
            finally:
                self.logs.end(build.build_id)
                self._jobs.pop(build.build_id, None)
        await asyncio.to_thread(self._services.uploads.prune)
        await self._services.cache.trim()

    async def _settle_ready(self, build: BuildRow, run: BuildRun, result: BuildResult) -> None:
        """Sync the layers to the disk, then store that the build is ready."""
        reached("build.made")
        await self._context.layers.sync()
        async with self._services.catalogue.changing:
            await self._store_ready(build, run, result)
        reached("build.stored")

    async def _store_ready(self, build: BuildRow, run: BuildRun, result: BuildResult) -> None:
        template = self._store.templates.get(build.template_id)
        if template is None:
            raise BuildError("the template was removed", None)
        at = now()
        build = replace(
            build,
            status="ready",
            updated_at=at,
            finished_at=at,
            base=result.root.base,
            layers=self._context.layers.shorten(result.root.layers),
            default_user=result.state.user,
            default_cwd=result.state.workdir,
            envs=result.state.envs,
            start_command=result.start_command,
            ready_command=result.ready_command,
        )
        batch = Batch().put(build).put(with_tags(template, build.tags, build.build_id))
        self._services.cache.note(batch, run.used)
        try:
            await self._context.commit(batch)
        except NoSpaceError as error:
            raise BuildError(f"no space left on the disk: {error.message}", run.phase) from error
        self._services.flattener.consider(build.layers)

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
                await self._context.layers.sync()
            else:
                await self.logs.end_interrupted(build, entry)
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
                self._services.cache.note(batch, run.used)
            try:
                return await self._context.commit(batch)
            except NoSpaceError as full:
                # Its layers are removed once they are no longer held; others may free space too.
                _log.warning("the end of build %s cannot be stored: %s", build.build_id, full)
                if run is not None:
                    await run.held.aclose()
                await asyncio.sleep(1)
