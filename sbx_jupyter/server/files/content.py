"""Route that streams files to and from a sandbox, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.client.api.transport import raise_for_status, translated_errors
from sbx_jupyter.errors import InvalidArgumentError, OutOfRangeError, SbxError, UnavailableError
from sbx_jupyter.protocol.runtime import WrittenFile
from sbx_jupyter.server.answers import SandboxRoute, logged, require
from sbx_jupyter.server.description.operations import NEEDED_PATH, PARTIAL_DOWNLOAD, Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from sbx_jupyter.client.api.transport import Transport

MAX_UPLOAD: Final = 1024 * 1024 * 1024 * 1024
"""Larger than any disk: the sandbox's own limit applies, since uploads are not kept here."""

SMALL_UPLOAD: Final = 8 * 1024 * 1024
CHUNK: Final = 64 * 1024
QUEUED_CHUNKS: Final = 4
TRANSFER_SILENCE: Final = 300.0

_PASSED_REQUEST: Final = ("Range", "If-Range", "If-None-Match", "If-Modified-Since")
_PASSED_ANSWER: Final = (
    "Content-Length",
    "Content-Range",
    "Accept-Ranges",
    "Last-Modified",
    "ETag",
)
RANGE_NOT_SATISFIABLE: Final = 416
_BODYLESS: Final = (204, 304)


@dataclass(frozen=True, slots=True)
class Place:
    """The address at which a deployment reads and writes a file."""

    transport: Transport
    url: str
    headers: dict[str, str]
    params: dict[str, str]
    upload_method: str = "POST"


@web.stream_request_body
class StreamedFile(SandboxRoute):
    """Base of the routes that read and write one file, whose ``path`` is in the query.

    Files of a sandbox may be hostile, and pages of this origin may use Jupyter. So every answer is
    a download of opaque bytes, which browsers neither run nor display.
    """

    _upload: asyncio.Task[httpx.Response] | None = None
    _refusal: SbxError | None = None
    _chunks: asyncio.Queue[bytes | None]

    async def place(self) -> Place:
        """The address of the file; raises ``SbxError``."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Check the user's permission before any byte of an upload is passed on.

        The decorated verb runs only after the whole body has arrived.
        """
        await super().prepare()
        if self._finished or self.request.method != "POST":
            return
        self.check_xsrf_cookie()
        await require(self, "write")
        try:
            await self._begin_upload()
        except SbxError as e:
            if not self._is_small():
                raise
            self._refusal = e

    async def data_received(self, chunk: bytes) -> None:
        """Pass a chunk of the upload on; waits while the sandbox is slower than the browser."""
        if self._refusal is None:
            await self._put(chunk)

    async def receive_upload(self) -> None:
        """Answer a ``POST`` whose body has been passed on."""
        if self._refusal is not None:
            raise self._refusal
        await self._put(None)
        assert self._upload is not None
        response = await raise_for_status(await self._upload)
        try:
            with translated_errors():
                body = await response.aread()
        finally:
            await response.aclose()
        self.answer_raw(body)

    async def send_download(self) -> None:
        """Answer a ``GET``."""
        place = await self.place()
        headers = place.headers | {"Accept-Encoding": "identity"}
        headers |= {name: self.request.headers[name] for name in self._present(_PASSED_REQUEST)}
        response = await place.transport.open(
            "GET",
            place.url,
            headers=headers,
            params=place.params,
            timeout=TRANSFER_SILENCE,
        )
        if response.status_code == RANGE_NOT_SATISFIABLE:
            await response.aclose()
            self.set_header("Content-Range", response.headers.get("Content-Range", "bytes */*"))
            raise OutOfRangeError("the file ends before the wanted range")
        await raise_for_status(response)
        try:
            self._start_download(response)
            await self._copy(response)
        finally:
            await response.aclose()

    def on_connection_close(self) -> None:
        """Stop the upload when the browser disconnects."""
        if self._upload is not None:
            self._upload.cancel()
        super().on_connection_close()

    def on_finish(self) -> None:
        """Stop an upload that was answered before its end, for example with an error."""
        super().on_finish()
        if self._upload is not None and not self._upload.done():
            self._upload.cancel()

    async def _begin_upload(self) -> None:
        """Open the request to the deployment whose body is the upload."""
        place = await self.place()
        connection: Any = self.request.connection
        connection.set_max_body_size(MAX_UPLOAD)
        self._chunks = asyncio.Queue(QUEUED_CHUNKS)
        self._upload = asyncio.create_task(
            place.transport.open(
                place.upload_method,
                place.url,
                headers=self._upload_headers(dict(place.headers)),
                params=place.params,
                content=self._body(),
                timeout=TRANSFER_SILENCE,
            )
        )

    def _is_small(self) -> bool:
        """Whether to read the body of a refused upload to its end.

        An earlier answer would reset the connection, and the browser would not get the error.
        """
        size = self.request.headers.get("Content-Length", "")
        return size.isascii() and size.isdigit() and int(size) <= SMALL_UPLOAD

    def _upload_headers(self, headers: dict[str, str]) -> dict[str, str]:
        headers["Content-Type"] = "application/octet-stream"
        if (size := self.request.headers.get("Content-Length")) is not None:
            headers["Content-Length"] = size
        return headers

    async def _put(self, chunk: bytes | None) -> None:
        """Queue a chunk, unless the sandbox has answered already, for example to refuse it."""
        assert self._upload is not None
        putting = asyncio.ensure_future(self._chunks.put(chunk))
        try:
            await asyncio.wait({putting, self._upload}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    async def _body(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    def path_in_query(self) -> str:
        """The path that the request is about; raises ``InvalidArgumentError``."""
        path = self.get_query_argument("path", "", strip=False)
        if not path:
            raise InvalidArgumentError("the query must name a path")
        return path

    def _present(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self.request.headers]

    def _start_download(self, response: httpx.Response) -> None:
        self.set_status(response.status_code)
        for name in _PASSED_ANSWER:
            if name in response.headers:
                self.set_header(name, response.headers[name])
        name = self.get_query_argument("path", "", strip=False).rstrip("/").rpartition("/")[2]
        announce_download(self, name)

    async def _copy(self, response: httpx.Response) -> None:
        if response.status_code in _BODYLESS:
            self.finish(set_content_type="application/octet-stream")
            return
        try:
            with translated_errors():
                async for chunk in response.aiter_raw(CHUNK):
                    self.write(chunk)  # pyright: ignore[reportUnknownMemberType] - tornado's dict
                    await self.flush()
        except SbxError as e:
            self._abort(e)
        except StreamClosedError:
            return
        else:
            self.finish(set_content_type="application/octet-stream")

    def _abort(self, error: SbxError) -> None:
        """Raise ``error``, or close the connection if the headers have been sent already."""
        if not self._headers_written:
            raise error
        self.log.warning("a download from a sandbox failed: %s", logged(error))
        if isinstance(error, UnavailableError):
            self.connection.recheck_engine()
        connection: Any = self.request.connection
        connection.stream.close()


def announce_download(handler: SandboxRoute, name: str) -> None:
    """Set the headers with which browsers save an answer as opaque bytes, and never display it."""
    handler.set_header("Content-Type", "application/octet-stream")
    handler.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name)}")
    handler.set_header("Content-Security-Policy", "default-src 'none'; sandbox")
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.set_header("Cache-Control", "no-store")


class FilesHandler(StreamedFile):
    """``GET`` and ``POST`` of one file; ``path`` is that of the runtime API."""

    bodies: ClassVar = {"post": bytes}
    queries: ClassVar = {"get": (NEEDED_PATH,), "post": (NEEDED_PATH,)}
    answers: ClassVar = {"get": PARTIAL_DOWNLOAD, "post": Answer(list[WrittenFile])}

    async def place(self) -> Place:
        path = self.path_in_query()
        runtime = await self.connection.runtime(self.path_kwargs["sandbox_id"])
        return Place(runtime.transport, runtime.url("/files"), runtime.headers(), {"path": path})

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        await self.send_download()

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        await self.receive_upload()
