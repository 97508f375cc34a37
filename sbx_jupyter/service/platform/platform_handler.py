"""The base of the platform API's handlers: credentials, bodies, query values, errors."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from sbx_jupyter.engine.owners import Caller, set_caller
from sbx_jupyter.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    SbxError,
    UnauthenticatedError,
)
from sbx_jupyter.protocol import access, platform
from sbx_jupyter.service.answers import JSON, error_body, platform_status
from sbx_jupyter.service.bodies import BodyHandler
from sbx_jupyter.service.platform.operation_spec import Parameter

T = TypeVar("T")

EXPOSED_HEADERS: Final = (
    "X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset,"
    " Retry-After"
)
COMMON_ERRORS: Final = (400, 401, 404, 429, 500)

LIMIT: Final = Parameter(
    "limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 100}, "Page size."
)
NEXT_TOKEN: Final = Parameter(
    "nextToken", {"type": "string"}, "The X-Next-Token of the page before."
)


class PlatformHandler(BodyHandler):
    """Serves one route of the platform API (interface 1)."""

    surface = "platform"
    max_body_size: ClassVar[int] = platform.MAX_BODY_SIZE
    needs_key: ClassVar[bool] = True
    needs_own_key: ClassVar[bool] = False
    """Whether keys of sessions and owners are refused: the route is about the engine itself."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Access-Control-Expose-Headers", EXPOSED_HEADERS)
        self.set_header("Cache-Control", "no-store")

    async def admit(self) -> None:
        """Check the API key (interface 1.0.3); raises ``UnauthenticatedError``."""
        if self.needs_key and self.request.method != "OPTIONS":
            self.check_key()

    def check_key(self) -> None:
        """Set the caller by the key of the request; raise ``UnauthenticatedError`` without one.

        Raises ``PermissionDeniedError`` for another key where the engine's own is needed.
        """
        given = self.request.headers.get(access.API_KEY_HEADER)
        if not given:
            raise UnauthenticatedError(
                f"no API key: send the key of this engine in the header {access.API_KEY_HEADER}"
            )
        if access.matches(given, self.service.api_key):
            self.routed.caller = Caller()
            return
        found = self.service.session_keys.find(given) or self.service.owner_keys.find(given)
        if found is None:
            raise UnauthenticatedError("the API key is not the key of this engine")
        if self.needs_own_key:
            raise PermissionDeniedError(
                "this is the key of a Jupyter session or a user, which is for sandboxes only"
            )
        self.routed.caller = found
        set_caller(found)

    def release(self) -> None:
        """Release what the request holds, at its end or when the client disconnects."""

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self.release()

    def on_finish(self) -> None:
        super().on_finish()
        self.release()

    def write_failure(self, error: SbxError) -> bytes:
        status = platform_status(error)
        self.set_status(status)
        self.set_header("Content-Type", JSON)
        if status in (429, 503):
            self.set_header("Retry-After", "1")
        if status >= 500:
            self.set_header("Should-Retry", "true" if status == 503 else "false")
        return error_body(status, error.message)

    # Bodies.

    def read_body(self, kind: type[T], *, optional: bool = False) -> T:
        """Decode the JSON body; an empty or null one counts as ``{}`` if ``optional``.

        Raises ``InvalidArgumentError`` with the texts of interface 1.0.4.
        """
        raw: bytes | bytearray = self.body
        if optional and bytes(raw).strip() in (b"", b"null"):
            raw = b"{}"
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as error:
            raise InvalidArgumentError(f"validation error: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"Error when parsing request: {error}") from None

    def answer(self, body: Any = None, status: int = 200) -> None:
        """End the request with a JSON body (``bytes`` are sent as they are), or without one."""
        self.set_status(status)
        if body is None:
            self.clear_header("Content-Type")
            self.finish()
            return
        payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.set_header("Content-Type", JSON)
        self.set_header("Content-Length", len(payload))
        self.finish(payload)

    def answer_page(self, items: Any, next_token: str | None) -> None:
        """End the request with one page of a list; ``next_token`` is of the next page, if any."""
        if next_token:
            self.set_header("X-Next-Token", next_token)
        self.answer(items)

    # Path and query.

    def sandbox_id(self, text: str) -> str:
        """Parse the sandbox id in the path (interface 1.0.5).

        Raises ``NotFoundError`` for a sandbox that the caller may not use, as for an unknown one.
        """
        sandbox_id = access.parse_sandbox_id(text)
        self.service.engine.sandboxes.check_caller(sandbox_id)
        return sandbox_id

    def query_text(self, name: str) -> str | None:
        """A query value, the last if there are several, else ``None``.

        Raises ``InvalidArgumentError`` unless it is UTF-8.
        """
        values = self.request.query_arguments.get(name)
        if not values:
            return None
        return _decode(values[-1], name)

    def query_list(self, name: str) -> list[str]:
        """A list given as commas, as repeated keys, or both (interface 1.0.2)."""
        values = self.request.query_arguments.get(name, [])
        parts = [part for value in values for part in _decode(value, name).split(",")]
        return [part for part in parts if part]

    def query_int(
        self, name: str, default: T, *, minimum: int | None = None, maximum: int | None = None
    ) -> int | T:
        """A whole number from ``minimum`` to ``maximum``; raises ``InvalidArgumentError``."""
        text = self.query_text(name)
        if text is None or text == "":
            return default
        digits = text[1:] if text[:1] == "-" else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise InvalidArgumentError(f"validation error: {name} must be a whole number")
        value = int(text)
        if minimum is not None and value < minimum:
            raise InvalidArgumentError(f"validation error: {name} must be at least {minimum}")
        if maximum is not None and value > maximum:
            raise InvalidArgumentError(f"validation error: {name} must be at most {maximum}")
        return value

    def query_choice(self, name: str, choices: tuple[str, ...], default: str | None) -> str | None:
        """One of ``choices``; raises ``InvalidArgumentError``."""
        text = self.query_text(name)
        if text is None or text == "":
            return default
        if text not in choices:
            raise InvalidArgumentError(
                f"validation error: {name} must be one of {', '.join(choices)}"
            )
        return text

    def query_time(self, name: str) -> dt.datetime | None:
        """An RFC 3339 time with a zone; raises ``InvalidArgumentError``."""
        text = self.query_text(name)
        if text is None or text == "":
            return None
        try:
            # The "+" of a time zone arrives as a space if it was not percent-encoded.
            value = msgspec.convert(text.replace(" ", "+"), dt.datetime)
        except msgspec.ValidationError as error:
            raise InvalidArgumentError(f"validation error: {name}: {error}") from None
        if value.tzinfo is None:
            raise InvalidArgumentError(f"validation error: {name} has no time zone")
        return value

    async def options(self, *args: str) -> None:
        """Answer a preflight request from any origin."""
        allow_preflight(self)


def allow_preflight(handler: BodyHandler) -> None:
    """Answer ``OPTIONS`` (interface 4.1, CORS) without credentials."""
    asked = handler.request.headers.get("Access-Control-Request-Headers", "*")
    handler.set_status(204)
    handler.set_header("Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE")
    handler.set_header("Access-Control-Allow-Headers", asked)
    handler.set_header("Access-Control-Max-Age", "7200")
    handler.clear_header("Content-Type")
    handler.finish()


class UnknownRouteHandler(PlatformHandler):
    """Answers 404 to requests that match no route (interface 1.0.4), except preflight requests.

    The request that follows a preflight may have headers that lead it to a sandbox.
    """

    needs_key: ClassVar[bool] = False

    async def admit(self) -> None:
        if self.request.method != "OPTIONS":
            raise _NoRouteError("no such route")


class _NoRouteError(SbxError):
    code = "not_found"


def parse_metadata(text: str) -> dict[str, str]:
    """The metadata filter of a list request (interface 1.3, "S3 metadata encoding").

    ``text`` is the decoded query value. Clients encode keys and values twice more, so it can be
    split before they are decoded. If the client encoded the whole text, it has no ``=`` and is
    decoded first. Raises ``InvalidArgumentError``.
    """
    rounds = 2
    while "=" not in text and rounds:
        text = _unquote(text)
        rounds -= 1
    pairs: dict[str, str] = {}
    for pair in text.split("&"):
        if not pair:
            continue
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgumentError(f"validation error: metadata has no value for '{key}'")
        for _ in range(rounds):
            key, value = _unquote(key), _unquote(value)
        pairs[key] = value
    return pairs


def _unquote(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("validation error: metadata is not UTF-8") from None


def _decode(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"validation error: {name} is not UTF-8") from None
