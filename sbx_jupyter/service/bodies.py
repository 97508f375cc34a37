"""The base of all handlers: bodies that arrive in pieces, and refusals that clients can read."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler, stream_request_body

from sbx_jupyter.errors import InternalError, SbxError
from sbx_jupyter.service.answers import HttpError
from sbx_jupyter.service.gateway.raw_response import finish_write

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection

    from sbx_jupyter.service.context import RoutedRequest, SbxApplication, Service

_log = logging.getLogger(__name__)

_SWALLOW_BYTES: Final = 8 * 1024 * 1024
_SWALLOW_SECONDS: Final = 2.0


@stream_request_body
class BodyHandler(RequestHandler):
    """Receives the body piece by piece and answers errors in the form of its surface.

    A request is refused as soon as it is known to be wrong; what the client still sends is then
    swallowed within bounds, since closing at once would destroy the answer on its way.
    """

    surface: str = "platform"
    """Who answers, for the log and the counters."""
    max_body_size: ClassVar[int] = 16 * 1024 * 1024

    def initialize(self) -> None:
        self.body = bytearray()
        self.is_refused = False
        self._swallowed = 0
        self._swallow_timer: asyncio.TimerHandle | None = None

    @property
    def service(self) -> Service:
        return cast("SbxApplication", self.application).service

    @property
    def routed(self) -> RoutedRequest:
        return cast("RoutedRequest", self.request)

    @property
    def http1(self) -> HTTP1Connection:
        """The connection of the request."""
        return cast("HTTP1Connection", self.request.connection)

    if TYPE_CHECKING:  # tornado's annotations do not say what is in its dict

        def write(self, chunk: str | bytes | dict[str, Any]) -> None: ...

        def finish(
            self, chunk: str | bytes | dict[str, Any] | None = None
        ) -> asyncio.Future[None]: ...

    # For subclasses to override.

    async def admit(self) -> None:
        """Look at the head of the request; raises what makes it unacceptable."""

    async def receive(self, chunk: bytes) -> None:
        """Take one piece of the body; collects it up to the limit unless overridden."""
        self.check_body_size(len(self.body) + len(chunk))
        self.body += chunk

    def write_failure(self, error: SbxError) -> bytes:
        """Set status and headers for ``error`` and return the body."""
        raise NotImplementedError

    def check_body_size(self, size: int) -> None:
        """Raise when ``size`` bytes are more than a body may have."""
        if size > self.max_body_size:
            raise HttpError(413, f"the body is larger than {self.max_body_size} bytes")

    # How tornado drives it.

    async def prepare(self) -> None:
        try:
            length = self.request.headers.get("Content-Length")
            if length is not None and length.isdigit():
                self.check_body_size(int(length))
            await self.admit()
        except StreamClosedError:
            raise
        except SbxError as error:
            self.refuse(error)
        except Exception:
            # A fault of ours, whatever it is. Tornado answers what is raised here before the body
            # has come and then closes, which may destroy the answer; so we refuse, and log it.
            _log.exception("cannot admit a request")
            self.refuse(InternalError("internal error"))

    async def data_received(self, chunk: bytes) -> None:
        self.service.counters.received_bytes += len(chunk)
        if self.is_refused:
            self._swallow(len(chunk))
            return
        try:
            await self.receive(chunk)
        except SbxError as error:
            self.refuse(error)
        except Exception:
            # As above; raised from here, tornado would close the connection without a word.
            _log.exception("cannot take a body")
            self.refuse(InternalError("internal error"))

    def refuse(self, error: SbxError) -> None:
        """Answer with ``error`` now, while the body may still be on its way."""
        if self.is_refused or self._finished:
            return
        self.is_refused = True
        self.body = bytearray()
        self.write_whole(self.write_failure(error))
        self._swallow_timer = asyncio.get_running_loop().call_later(
            _SWALLOW_SECONDS, self._stop_swallowing
        )

    def write_whole(self, payload: bytes) -> None:
        """Send a complete answer without ending the request."""
        self.set_header("Content-Length", len(payload))
        self.write(payload)
        finish_write(self.service, self.flush())

    def _swallow(self, size: int) -> None:
        self._swallowed += size
        if self._swallowed > _SWALLOW_BYTES:
            self._stop_swallowing()

    def _stop_swallowing(self) -> None:
        if not self._finished:
            self.finish()

    def fail(self, error: SbxError) -> None:
        """Answer with ``error`` after the body has arrived."""
        if self._headers_written:
            self.http1.close()
            return
        self.clear_for_failure()
        payload = self.write_failure(error)
        self.set_header("Content-Length", len(payload))
        self.finish(payload)

    def clear_for_failure(self) -> None:
        """Forget headers and body of the answer that did not come about."""
        self._write_buffer = []
        for name in ("Content-Encoding", "Last-Modified", "ETag"):
            self.clear_header(name)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Answer what tornado itself found wrong in the form of the surface."""
        if self.is_refused or self._headers_written:
            if not self._finished:
                self.http1.close() if not self.is_refused else self.finish()
            return
        raised = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(raised, SbxError):
            self.fail(raised)
        elif isinstance(raised, HTTPError):
            self.fail(HttpError(raised.status_code, _REASONS.get(status_code, "bad request")))
        else:
            self.fail(InternalError("internal error"))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, SbxError | HTTPError | StreamClosedError):
            return
        _log.error("a handler failed", exc_info=(typ, value, tb))

    def on_finish(self) -> None:
        if self._swallow_timer is not None:
            self._swallow_timer.cancel()
            self._swallow_timer = None

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Access-Control-Allow-Origin", self.service.settings.allow_origin)

    def compute_etag(self) -> str | None:
        """No entity tag of the text of an answer: hashing it costs more than sending it."""
        return None

    async def _run_verb(self, *args: str, **kwargs: str) -> None:
        if self.is_refused:
            self.finish()
            return
        raise HttpError(405, "method not allowed")

    get = head = post = put = patch = delete = _run_verb


_REASONS: Final = {400: "bad request", 404: "not found", 405: "method not allowed"}
