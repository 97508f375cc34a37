"""Route that copies files between notebook files and sandboxes, with progress."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypedDict

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import InvalidArgumentError, ResourceExhaustedError
from sbx_jupyter.server.answers import audit_of, require
from sbx_jupyter.server.copies.copying import EXISTING, Copy, Job
from sbx_jupyter.server.copies.notebook_files import NotebookPlace
from sbx_jupyter.server.copies.places import SandboxPlace
from sbx_jupyter.server.description.operations import events
from sbx_jupyter.server.streams import EventStream, event

if TYPE_CHECKING:
    from sbx_jupyter.server.copies.copying import Progress
    from sbx_jupyter.server.copies.places import Place

MAX_AT_ONCE: Final = 8
MAX_JOBS: Final = 1000
INTERVAL: Final = 0.25
"""Seconds between two reports."""


class CopyJob(msgspec.Struct, kw_only=True, frozen=True):
    """One file or folder to copy; ``target`` includes its new name."""

    source: str
    target: str


class CopyBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST copies``; without a sandbox, paths are those of notebook files.

    ``existing`` is ``fail``, ``replace``, ``skip`` or ``keep``.
    """

    jobs: list[CopyJob]
    source_sandbox: str | None = msgspec.field(default=None, name="sourceSandboxID")
    target_sandbox: str | None = msgspec.field(default=None, name="targetSandboxID")
    existing: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(EXISTING)})] = "fail"


class CopyProgress(TypedDict):
    """How far a copy is."""

    files: int
    allFiles: int
    bytes: int
    allBytes: int


class CopyFailure(TypedDict):
    """What was not copied, and why."""

    name: str
    message: str


class CopyEnd(TypedDict):
    """What a copy has done; ``failureCount`` counts also failures that are not named."""

    copied: int
    skipped: list[str]
    links: int
    failures: list[CopyFailure]
    failureCount: int


class CopiesHandler(EventStream):
    """Copies files and folders, and tells by server-sent events how far it is.

    ``progress`` has ``files``, ``allFiles``, ``bytes`` and ``allBytes``; the last event is ``end``.
    Closing the connection cancels the copy; no file is left half written.
    """

    bodies: ClassVar = {"post": CopyBody}
    answers: ClassVar = {"post": events(progress=CopyProgress, end=CopyEnd)}
    _track_activity = True
    _open = 0
    _work: asyncio.Task[None] | None = None

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = self.decode_body(CopyBody)
        if body.existing not in EXISTING:
            raise InvalidArgumentError(f"'existing' must be one of {', '.join(EXISTING)}")
        if not 0 < len(body.jobs) <= MAX_JOBS:
            raise InvalidArgumentError(f"'jobs' must name 1 to {MAX_JOBS} files or folders")
        if CopiesHandler._open >= MAX_AT_ONCE:
            raise ResourceExhaustedError("too many copies are made at once; try again later")
        CopiesHandler._open += 1
        try:
            source = await self._place(body.source_sandbox, "read")
            target = await self._place(body.target_sandbox, "write")
            copy = Copy(source, target, body.existing)
            await copy.plan([Job(each.source, each.target) for each in body.jobs])
            await self._run(copy)
        finally:
            CopiesHandler._open -= 1

    def on_connection_close(self) -> None:
        """Cancel the copy when the page has gone."""
        if self._work is not None:
            self._work.cancel()
        super().on_connection_close()

    async def _place(self, sandbox_id: str | None, action: str) -> Place:
        if sandbox_id is None:
            await require(self, action, "contents")
            return NotebookPlace(self.contents_manager)
        if (audit := audit_of(self)) is not None:
            audit.note(self, "files.copy", sandbox_id, direction=action)
        return SandboxPlace(await self.connections.of(sandbox_id).runtime(sandbox_id))

    async def _run(self, copy: Copy) -> None:
        if self.is_gone:
            return
        self._work = work = asyncio.create_task(copy.run())
        number = 0
        try:
            await self.begin()
            while not work.done():
                await self.send(event("progress", _progress(copy.progress), str(number)))
                number += 1
                await asyncio.wait({work}, timeout=INTERVAL)
            if not work.cancelled():
                work.result()
                await self.send(event("end", _end(copy.progress), str(number)))
        except StreamClosedError:
            return
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def _progress(progress: Progress) -> CopyProgress:
    return {
        "files": progress.files,
        "allFiles": progress.all_files,
        "bytes": progress.bytes,
        "allBytes": progress.all_bytes,
    }


def _end(progress: Progress) -> CopyEnd:
    return {
        "copied": progress.copied,
        "skipped": progress.skipped,
        "links": progress.links,
        "failures": [{"name": name, "message": text} for name, text in progress.failures],
        "failureCount": progress.failure_count,
    }
