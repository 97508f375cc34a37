"""The base of the runtime API's handlers: one sandbox, its token, its errors (interface 4.1)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec

from sbx_jupyter.errors import InvalidArgumentError, SbxError, UnauthenticatedError
from sbx_jupyter.service.answers import JSON_UTF8, error_body, reset, runtime_status
from sbx_jupyter.service.bodies import BodyHandler
from sbx_jupyter.service.gateway.error_responses import GatewayError
from sbx_jupyter.service.gateway.gateway import find_live
from sbx_jupyter.service.platform.platform_handler import allow_preflight
from sbx_jupyter.service.sandbox_access import check_token

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.protocol.access import Route


EXPOSED_HEADERS: Final = (
    "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, Cache-Control,"
    " X-Content-Type-Options"
)


class RuntimeHandler(BodyHandler):
    """Serves one runtime route of one sandbox."""

    surface = "runtime"
    needs_token: ClassVar[bool] = True
    sandbox: Sandbox

    @property
    def route(self) -> Route:
        route = self.routed.route
        assert route is not None
        return route

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Access-Control-Expose-Headers", EXPOSED_HEADERS)
        self.set_header("X-Content-Type-Options", "nosniff")

    async def admit(self) -> None:
        """Find the sandbox, then check the token.

        Raises ``GatewayError`` and ``UnauthenticatedError``.
        """
        if self.request.method == "OPTIONS":
            return
        self.sandbox = await find_live(self.service, self.routed, self.route)
        self.check_access(self.service.engine.sandboxes.access_token(self.route.sandbox_id))

    def check_access(self, token: str | None) -> None:
        """Raise ``UnauthenticatedError`` unless the request may use the sandbox."""
        if self.needs_token:
            check_token(self.routed, token)

    def write_failure(self, error: SbxError) -> bytes:
        if isinstance(error, GatewayError):
            content_type, body = error.response.render(self.request.headers)
            self.set_status(error.response.status)
            self.set_header("Content-Type", content_type)
            return body
        status = runtime_status(error)
        self.set_status(status)
        self.set_header("Content-Type", JSON_UTF8)
        return error_body(status, error.message)

    def break_off(self) -> None:
        """Reset the connection, so that the client cannot take what was sent for all."""
        reset(self.http1.stream)

    async def options(self, *args: str) -> None:
        """Answer a preflight request without a token."""
        allow_preflight(self)


def basic_user(authorization: str | None) -> str | None:
    """The user named by ``Authorization: Basic`` (interface 3.3); ``None`` for the default user.

    Raises ``UnauthenticatedError`` for a header that cannot be decoded, or that names nobody.
    """
    if not authorization:
        return None
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise UnauthenticatedError("the Authorization header cannot be decoded") from None
    if not user:
        raise UnauthenticatedError("invalid username: ''")
    return user


T = TypeVar("T")


class RuntimeJsonHandler(RuntimeHandler):
    """Base of handlers whose requests and responses are small JSON bodies."""

    max_body_size: ClassVar[int] = 16 * 1024 * 1024

    def read_body(self, kind: type[T]) -> T:
        """The body as a record; raises ``InvalidArgumentError``."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"invalid request body: {error}") from None

    def answer(self, body: Any) -> None:
        """End the request with a JSON body."""
        payload = msgspec.json.encode(body)
        self.set_header("Content-Type", JSON_UTF8)
        self.set_header("Content-Length", len(payload))
        self.finish(payload)

    def answer_nothing(self) -> None:
        """End the request with 204."""
        self.set_status(204)
        self.clear_header("Content-Type")
        self.finish()
