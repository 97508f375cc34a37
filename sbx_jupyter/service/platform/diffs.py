"""Routes that compare a sandbox with what it started from: an addition to the platform API."""

from __future__ import annotations

from typing import Final

from tornado.iostream import PipeIOStream, StreamClosedError

from sbx_jupyter.errors import InvalidArgumentError, UnavailableError
from sbx_jupyter.isolation.stored.archive import ArchiveReader
from sbx_jupyter.protocol.diff import Diff
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

_CHUNK: Final = 256 * 1024
_SINCE: Final = Parameter(
    "since", {"type": "string"}, "The snapshot to compare with; default: the template."
)


class DiffHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/diff``."""

    @operation(
        "List what a sandbox added, changed and deleted",
        answers={200: Diff},
        errors=(*COMMON_ERRORS, 409),
        query=(_SINCE,),
    )
    async def get(self, sandbox_id: str) -> None:
        diffs = self.service.engine.storage.diffs
        self.answer(await diffs.diff(self.sandbox_id(sandbox_id), self.query_text("since")))


class EarlierFileHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/diff/before``."""

    @operation(
        "Read a file as it was before the sandbox changed or deleted it",
        answers={200: "application/octet-stream"},
        errors=(*COMMON_ERRORS, 409),
        query=(Parameter("path", {"type": "string"}, "Absolute.", required=True), _SINCE),
    )
    async def get(self, sandbox_id: str) -> None:
        path = self.query_text("path")
        if not path or not path.startswith("/"):
            raise InvalidArgumentError("'path' must be absolute")
        sandbox_id = self.sandbox_id(sandbox_id)
        diffs = self.service.engine.storage.diffs
        content = await diffs.earlier_file(sandbox_id, path, self.query_text("since"))
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(content)


class DiffArchiveHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/diff.tar``."""

    @operation(
        "Download what a sandbox added and changed as a tar",
        answers={200: "application/x-tar"},
        errors=(*COMMON_ERRORS, 409),
        query=(_SINCE,),
    )
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = self.sandbox_id(sandbox_id)
        diffs = self.service.engine.storage.diffs
        reader = await diffs.archive(sandbox_id, self.query_text("since"))
        stream = PipeIOStream(reader, max_buffer_size=4 * _CHUNK)
        archive = ArchiveReader()
        try:
            while chunk := await _read(stream):
                await self._send(archive.pass_on(chunk), sandbox_id)
        finally:
            stream.close()
        if archive.is_whole:
            self.finish()
        elif archive.passed:
            self.http1.close()  # the client must not take what it has for all
        else:
            raise UnavailableError("the changes could not be read; ask again")

    async def _send(self, chunk: bytes, sandbox_id: str) -> None:
        if chunk:
            self.set_header("Content-Type", "application/x-tar")
            self.set_header("Content-Disposition", f"attachment; filename={sandbox_id}.tar")
            self.write(chunk)
            await self.flush()


async def _read(stream: PipeIOStream) -> bytes:
    """The next bytes of a pipe; none at its end."""
    try:
        return await stream.read_bytes(_CHUNK, partial=True)
    except StreamClosedError:
        return b""
