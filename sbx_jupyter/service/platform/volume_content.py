"""Routes for the files of a volume, which take the volume's token only (interface 1.6.2)."""

from __future__ import annotations

import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec

from sbx_jupyter.engine.live.descriptors import write_all
from sbx_jupyter.errors import (
    InvalidArgumentError,
    NoSpaceError,
    SbxError,
    UnauthenticatedError,
)
from sbx_jupyter.isolation.stored.volume_content import MAX_DEPTH, Ownership
from sbx_jupyter.protocol.volumes import ChangeEntry, VolumeEntry
from sbx_jupyter.service.answers import JSON, platform_status
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import PlatformHandler

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.privileged.remote_trees import AnyVolume

T = TypeVar("T")

_CHUNK: Final = 1024 * 1024
_ERRORS: Final = (400, 401, 403, 404, 500)
_MAX_ID: Final = 2**31 - 1
_BEARER: Final = "bearer "

_threads: Final = ThreadPoolExecutor(max_workers=8, thread_name_prefix="sbx-volume")
"""Threads apart from the others: sandboxes write to volumes, and may make calls on them slow."""

_PATH: Final = Parameter("path", {"type": "string", "minLength": 1}, "The entry.", required=True)
_DEPTH: Final = Parameter("depth", {"type": "integer", "minimum": 0, "maximum": MAX_DEPTH})
_OWNERSHIP: Final = (
    Parameter("uid", {"type": "integer", "maximum": _MAX_ID}),
    Parameter("gid", {"type": "integer", "maximum": _MAX_ID}),
    Parameter("mode", {"type": "integer", "maximum": 0o7777}),
    Parameter("force", {"type": "boolean"}, "Make parent directories; replace an existing entry."),
)


async def _in_thread(function: Callable[..., T], *args: Any, **fields: Any) -> T:
    work = functools.partial(function, *args, **fields)
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


class ContentHandler(PlatformHandler):
    """Base of the routes below ``/volumecontent/{volumeID}``."""

    content: AnyVolume

    async def admit(self) -> None:
        """Check the volume's token and open the volume; the engine's key is not accepted here.

        Raises ``UnauthenticatedError``.
        """
        if self.request.method == "OPTIONS":
            return
        header = self.request.headers.get("Authorization", "")
        if not header.lower().startswith(_BEARER):
            raise UnauthenticatedError("send the volume's token as Authorization: Bearer")
        volumes = self.service.engine.attachments.volumes
        self.content = volumes.open(self.path_args[0], header[len(_BEARER) :].strip())

    def write_failure(self, error: SbxError) -> bytes:
        """Write ``{"code", "message"}``, here with the code as text."""
        self.set_status(507 if isinstance(error, NoSpaceError) else platform_status(error))
        self.set_header("Content-Type", JSON)
        return msgspec.json.encode({"code": error.code, "message": error.message})

    def query_path(self) -> str:
        """The query's ``path``; raises ``InvalidArgumentError`` when there is none."""
        path = self.query_text("path")
        if not path:
            raise InvalidArgumentError("path query parameter is required")
        return path

    def query_flag(self, name: str) -> bool:
        return self.query_choice(name, ("true", "false", "True", "False", "1", "0"), "false") in (
            "true",
            "True",
            "1",
        )

    def query_ownership(self) -> Ownership:
        """The owner and mode for a new entry; raises ``InvalidArgumentError``."""
        return Ownership(
            uid=self.query_int("uid", None, maximum=_MAX_ID),
            gid=self.query_int("gid", None, maximum=_MAX_ID),
            mode=self.query_int("mode", None, maximum=0o7777),
        )


class VolumePathHandler(ContentHandler):
    """``/volumecontent/{volumeID}/path``."""

    @operation("Describe an entry (V3)", answers={200: VolumeEntry}, errors=_ERRORS, query=(_PATH,))
    async def get(self, volume_id: str) -> None:
        self.answer(await _in_thread(self.content.stat, self.query_path()))

    @operation(
        "Change owner and mode (V3)",
        body=ChangeEntry,
        answers={200: VolumeEntry},
        errors=_ERRORS,
        query=(_PATH,),
    )
    async def patch(self, volume_id: str) -> None:
        change = self.read_body(ChangeEntry)
        wanted = Ownership(uid=change.uid, gid=change.gid, mode=change.mode)
        if any(item is not None and item > _MAX_ID for item in (wanted.uid, wanted.gid)):
            raise InvalidArgumentError("uid and gid must be below 2147483648")
        self.answer(await _in_thread(self.content.change, self.query_path(), wanted))

    @operation("Remove an entry (V3)", answers={204: None}, errors=_ERRORS, query=(_PATH,))
    async def delete(self, volume_id: str) -> None:
        await _in_thread(self.content.remove, self.query_path())
        self.answer(status=204)


class VolumeDirHandler(ContentHandler):
    """``/volumecontent/{volumeID}/dir``."""

    @operation(
        "List a directory (V3)",
        answers={200: list[VolumeEntry]},
        errors=(*_ERRORS, 429),
        query=(_PATH, _DEPTH),
    )
    async def get(self, volume_id: str) -> None:
        depth = self.query_int("depth", 1, minimum=0, maximum=MAX_DEPTH)
        self.answer(await _in_thread(self.content.list_dir, self.query_path(), depth))

    @operation(
        "Make a directory (V3)",
        answers={201: VolumeEntry},
        errors=(*_ERRORS, 409, 507),
        query=(_PATH, *_OWNERSHIP),
    )
    async def post(self, volume_id: str) -> None:
        force = self.query_flag("force")
        entry = await _in_thread(
            self.content.make_dir, self.query_path(), self.query_ownership(), force=force
        )
        self.answer(entry, 201)


class VolumeFileHandler(ContentHandler):
    """``/volumecontent/{volumeID}/file``."""

    max_body_size: ClassVar[int] = 1 << 62
    _target: int | None = None
    _draft: str | None = None
    """The name of the file that is being written, until its place is taken by it."""

    async def admit(self) -> None:
        await super().admit()
        if self.request.method == "PUT":
            force = self.query_flag("force")
            self._target, self._draft = await _in_thread(
                self.content.open_write, self.query_path(), self.query_ownership(), force=force
            )

    async def receive(self, chunk: bytes) -> None:
        if self._target is None:
            return  # ignore the body of a GET
        try:
            await asyncio.to_thread(write_all, self._target, [chunk])
        except OSError as error:
            self.release()
            raise NoSpaceError(f"cannot write: {error.strerror}") from error

    @operation(
        "Read a file (V3)",
        answers={200: "application/octet-stream"},
        errors=_ERRORS,
        query=(_PATH,),
    )
    async def get(self, volume_id: str) -> None:
        descriptor, size = await _in_thread(self.content.open_read, self.query_path())
        try:
            self.set_header("Content-Type", "application/octet-stream")
            self.set_header("Content-Length", size)
            sent = 0
            while sent < size:
                chunk = await asyncio.to_thread(os.read, descriptor, min(_CHUNK, size - sent))
                if not chunk:
                    # The file became shorter, so the announced length cannot be sent any more.
                    self.http1.close()
                    return
                sent += len(chunk)
                self.write(chunk)
                await self.flush()
        finally:
            os.close(descriptor)
        self.finish()

    @operation(
        "Write a file (V3)",
        body="application/octet-stream",
        answers={201: VolumeEntry},
        errors=(*_ERRORS, 409, 507),
        query=(_PATH, *_OWNERSHIP),
    )
    async def put(self, volume_id: str) -> None:
        path, force = self.query_path(), self.query_flag("force")
        draft, self._draft = self._draft, None
        self.release()
        if draft is not None:
            try:
                await _in_thread(self.content.finish_write, path, draft, force=force)
            except SbxError:
                self._drop(draft)
                raise
        self.answer(await _in_thread(self.content.stat, path), 201)

    def release(self) -> None:
        target, self._target = self._target, None
        draft, self._draft = self._draft, None
        if target is not None:
            os.close(target)
        if draft is not None:
            self._drop(draft)

    def _drop(self, draft: str) -> None:
        dropping = _in_thread(self.content.drop_write, self.query_path(), draft)
        self.service.tasks.spawn(dropping, "sbx-drop-upload")
