"""``/files``: download and upload (interface 4.4 and 4.5)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import (
    DataLossError,
    InvalidArgumentError,
    SbxError,
    UnauthenticatedError,
)
from sbx_jupyter.protocol.runtime import WrittenFile
from sbx_jupyter.service.gateway.raw_response import finish_write
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.runtime.downloads import Download
from sbx_jupyter.service.runtime.runtime_handler import RuntimeJsonHandler
from sbx_jupyter.service.runtime.uploads import Upload
from sbx_jupyter.service.sandbox_access import check_expiration, check_file_access

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.open_files import OpenFile

_log = logging.getLogger(__name__)

_QUERY: Final = (
    Parameter("path", {"type": "string"}, "The file; relative to the home of the user."),
    Parameter("username", {"type": "string"}, "Whose home, and who owns what is made."),
    Parameter("signature", {"type": "string"}, "Instead of the access token."),
    Parameter("signature_expiration", {"type": "integer"}, "Unix seconds."),
)


class FilesHandler(RuntimeJsonHandler):
    """``/files``."""

    max_body_size: ClassVar[int] = 1 << 62
    _upload: Upload | None = None

    def check_access(self, token: str | None) -> None:
        check_file_access(self.routed, token)

    async def admit(self) -> None:
        check_expiration(self.routed)
        await super().admit()
        if self.request.method == "POST":
            path = self._query("path") or ""
            self.service.note_runtime_call(self.routed, "files.write", path)
            self._upload = Upload(
                self.sandbox.files,
                self.request.headers,
                self._query("path"),
                self._user(),
                spool_dir=self.service.engine.config.data_dir,
            )
            length = self.request.headers.get("Content-Length", "")
            is_known = length.isascii() and length.isdigit()
            if is_known and self._upload.is_direct(int(length)):
                await self._upload.open()
                await self._receive_directly(self._upload, int(length))

    @operation(
        "Read a file",
        answers={200: "application/octet-stream", 206: "application/octet-stream", 304: None},
        errors=(400, 401, 404, 406, 416, 500, 502),
        query=_QUERY,
    )
    async def get(self) -> None:
        with await self._open() as file:
            try:
                await Download(self, file).send()
            except DataLossError as error:
                _log.info("a download is cut off: %s", error.message)
                self.break_off()
                return
        self.finish()

    @operation(
        "Describe a file",
        answers={200: None},
        errors=(400, 401, 404, 406, 416, 500, 502),
        query=_QUERY,
    )
    async def head(self) -> None:
        with await self._open() as file:
            await Download(self, file).send()
        self.finish()

    @operation(
        "Write files",
        body="multipart/form-data",
        answers={200: list[WrittenFile]},
        errors=(400, 401, 500, 502, 507),
        query=_QUERY,
    )
    async def post(self) -> None:
        upload, self._upload = self._upload, None
        assert upload is not None
        try:
            written = await upload.finish()
        finally:
            await _close(upload)
        self.answer(written)

    async def _receive_directly(self, upload: Upload, size: int) -> None:
        """Read the body from the socket without tornado's buffers, more than twice as fast.

        Sets ``Content-Length`` to what is left for tornado to read: 0, or the rest after an error.
        """
        headers, stream = self.request.headers, self.http1.stream
        if stream is None:
            raise StreamClosedError
        if headers.pop("Expect", "").lower() == "100-continue":
            finish_write(self.service, stream.write(b"HTTP/1.1 100 (Continue)\r\n\r\n"))
        try:
            async for count in upload.receive_from(stream, size):
                self.service.counters.received_bytes += count
                size -= count
        except SbxError:
            await self._abort_upload()
            raise
        finally:
            headers["Content-Length"] = str(size)

    async def receive(self, chunk: bytes) -> None:
        if self._upload is None:
            return  # the body of a GET is ignored
        try:
            await self._upload.receive(chunk)
        except SbxError:
            await self._abort_upload()
            raise

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._upload is not None:
            self.service.tasks.spawn(self._abort_upload())

    async def _abort_upload(self) -> None:
        """Close the file of an upload that failed; the caller reports the failure."""
        upload, self._upload = self._upload, None
        if upload is not None:
            await _close(upload)

    async def _open(self) -> OpenFile:
        user = self._user()
        try:
            return await self.sandbox.files.open_read(self._query("path") or "", user)
        except UnauthenticatedError as error:
            message = f"error looking up user '{user}': {error.message}"
            raise UnauthenticatedError(message) from None

    def _user(self) -> str | None:
        return self._query("username")

    def _query(self, name: str) -> str | None:
        values = self.request.query_arguments.get(name)
        if not values:
            return None
        try:
            return values[-1].decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError(f"{name} is not UTF-8") from None


async def _close(upload: Upload) -> None:
    try:
        await upload.aclose()
    except SbxError as error:
        _log.info("a half-sent upload could not be closed: %s", error.message)
