"""The base of all handlers: receives bodies piece by piece, and answers errors."""

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

_MAX_DISCARDED_BYTES: Final = 32 * 1024 * 1024
"""Twice what most bodies may have, for clients that read no answer before they sent all."""
_MAX_DISCARD_SECONDS: Final = 5.0


@stream_request_body
class BodyHandler(RequestHandler):
    """Receives the body piece by piece and answers errors in the format of its surface.

    A request is rejected as soon as an error is found. The rest of its body is then read and
    discarded, up to a limit, since closing at once could destroy the response on its way.
    """

    surface: str = "platform"
    """The name of the surface, for the log and the counters."""
    max_body_size: ClassVar[int] = 16 * 1024 * 1024

    def initialize(self) -> None:
        self.body = bytearray()
        self.is_rejected = False
        self._discarded_bytes = 0
        self._discard_timer: asyncio.TimerHandle | None = None

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
        """Check the headers of the request; raises an ``SbxError`` to reject it."""

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

    # Called by tornado.

    async def prepare(self) -> None:
        try:
            length = self.request.headers.get("Content-Length")
            if length is not None and length.isdigit():
                self.check_body_size(int(length))
            await self.admit()
        except StreamClosedError:
            raise
        except SbxError as error:
            self.reject(error)
        except Exception:
            # A bug. Tornado would answer before the body has arrived and then close, which may
            # destroy the response; so the request is rejected here.
            _log.exception("cannot admit a request")
            self.reject(InternalError("internal error"))

    async def data_received(self, chunk: bytes) -> None:
        self.service.counters.received_bytes += len(chunk)
        if self.is_rejected:
            self._discard(len(chunk))
            return
        try:
            await self.receive(chunk)
        except SbxError as error:
            self.reject(error)
        except Exception:
            # A bug. If it were raised, tornado would close the connection without a response.
            _log.exception("cannot take a body")
            self.reject(InternalError("internal error"))

    def reject(self, error: SbxError) -> None:
        """Answer with ``error`` now, even if the body has not arrived yet."""
        if self.is_rejected or self._finished:
            return
        self.is_rejected = True
        self.body = bytearray()
        self.write_whole(self._failure(error))
        self._discard_timer = asyncio.get_running_loop().call_later(
            _MAX_DISCARD_SECONDS, self._stop_discarding
        )

    def write_whole(self, payload: bytes) -> None:
        """Send a complete answer without ending the request."""
        self.set_header("Content-Length", len(payload))
        self.write(payload)
        finish_write(self.service, self.flush())

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            self._stop_discarding()

    def _stop_discarding(self) -> None:
        if not self._finished:
            self.finish()

    def fail(self, error: SbxError) -> None:
        """Answer with ``error`` after the body has arrived."""
        if self._headers_written:
            self.http1.close()
            return
        self.clear_for_failure()
        payload = self._failure(error)
        self.set_header("Content-Length", len(payload))
        self.finish(payload)

    def _failure(self, error: SbxError) -> bytes:
        """Like ``write_failure``; a failure about the method also names the allowed methods."""
        if isinstance(error, HttpError) and error.status == 405:
            self.set_header("Allow", ", ".join(self._verbs()))
        return self.write_failure(error)

    def clear_for_failure(self) -> None:
        """Drop the headers and body of the response that failed."""
        self._write_buffer = []
        for name in ("Content-Encoding", "Last-Modified", "ETag"):
            self.clear_header(name)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Answer an error found by tornado, in the format of the surface."""
        if self.is_rejected or self._headers_written:
            if not self._finished:
                self.http1.close() if not self.is_rejected else self.finish()
            return
        raised = kwargs.get("exc_info", (None, None, None))[1]
        error: SbxError
        if isinstance(raised, SbxError):
            error = raised
        elif isinstance(raised, HTTPError):
            error = HttpError(raised.status_code, _REASONS.get(status_code, "bad request"))
        else:
            error = InternalError("internal error")
        if self.routed.has_ended:
            self.fail(error)
        else:
            # Tornado found it in the headers, such as a method that no route has. It would close
            # the connection after the answer, whose client would reuse it.
            self.reject(error)
            self.routed.when_ended = self._stop_discarding

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, SbxError | HTTPError | StreamClosedError):
            return
        _log.error("a handler failed", exc_info=(typ, value, tb))

    def on_finish(self) -> None:
        if self._discard_timer is not None:
            self._discard_timer.cancel()
            self._discard_timer = None

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Access-Control-Allow-Origin", self.service.settings.allow_origin)

    def compute_etag(self) -> str | None:
        """No entity tag: hashing a response takes longer than sending it."""
        return None

    def _verbs(self) -> list[str]:
        """The methods that this route has."""
        return [
            verb
            for verb in self.SUPPORTED_METHODS
            if getattr(type(self), verb.lower()) is not BodyHandler._run_verb
        ]

    async def _run_verb(self, *args: str, **kwargs: str) -> None:
        if self.is_rejected:
            self.finish()
            return
        raise HttpError(405, "method not allowed")

    get = head = post = put = patch = delete = _run_verb


_REASONS: Final = {400: "bad request", 404: "not found", 405: "method not allowed"}
