"""The base of the JSON routes: records as JSON, errors as ``{"code", "message"}``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado import web

from sbx_jupyter.display.text import one_line
from sbx_jupyter.errors import (
    InvalidArgumentError,
    NoSpaceError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SbxError,
)
from sbx_jupyter.protocol import connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbx_jupyter.server.audit import AuditLog
    from sbx_jupyter.server.deployments.connection import Connection
    from sbx_jupyter.server.deployments.connections import Connections
    from sbx_jupyter.server.description.operations import Answer, Parameter

T = TypeVar("T")

RESOURCE: Final = "sandboxes"
MAX_JSON_BODY: Final = 1024 * 1024
_MAX_LOGGED: Final = 1000
_MAX_DIGITS: Final = 14

# When the engine refuses the server's key, the answer is 502: a 401 would make front ends ask the
# user to sign in to Jupyter again.
_STATUS: Final = connect.HTTP_STATUS | {
    "unauthenticated": 502,
    "failed_precondition": 409,
    "out_of_range": 416,
}


def status_of(error: SbxError) -> int:
    """The HTTP status with which a route answers an error."""
    return 507 if isinstance(error, NoSpaceError) else _STATUS[error.code]


def logged(error: SbxError) -> str:
    """The text of an error for the log: one line, since a sandbox may have chosen names in it."""
    return one_line(error.message, _MAX_LOGGED)


def connections_of(handler: JupyterHandler) -> Connections:
    """Return the connections that the user of a request may use.

    Raises ``PermissionDeniedError`` if there are none.
    """
    return handler.settings["sbx_jupyter"].connections_of(handler.current_user)


def connection_of(handler: JupyterHandler) -> Connection:
    """Return the connection that a request is for.

    That is the one of the sandbox in its path, else the one that ``connection`` in its query
    names, else the default. Raises ``NotFoundError`` for an unknown name.
    """
    connections = connections_of(handler)
    if named := handler.get_query_argument("connection", ""):
        return connections.named(named)
    sandbox_id = handler.path_kwargs.get("sandbox_id")
    return connections.of(sandbox_id) if sandbox_id else connections.default


async def require(handler: JupyterHandler, action: str, resource: str = RESOURCE) -> None:
    """Check that the user may do ``action`` to ``resource``: ``read``, ``write`` or ``execute``.

    Use it where ``@authorized`` cannot: before a body has arrived, on a WebSocket, or when the
    action depends on the request. Raises ``HTTPError`` 403.
    """
    user = handler.current_user
    if user is None:
        raise web.HTTPError(403)
    allowed = handler.authorizer.is_authorized(handler, user, action, resource)
    if not (await allowed if inspect.isawaitable(allowed) else allowed):
        raise web.HTTPError(403, f"User is not authorized to {action} on resource: {resource}.")


def audit_of(handler: JupyterHandler) -> AuditLog | None:
    """Return the audit log of this server, if it has one."""
    return handler.settings["sbx_jupyter"].audit


class SandboxRoute(APIHandler):
    """Base of the JSON routes; answers an ``SbxError`` raised in a verb with its code and text."""

    auth_resource = RESOURCE

    # The input and output of the verbs, for the description of the routes.
    bodies: ClassVar[Mapping[str, Any]] = {}
    queries: ClassVar[Mapping[str, Sequence[Parameter]]] = {}
    answers: ClassVar[Mapping[str, Answer | tuple[Answer, ...]]] = {}
    actions: ClassVar[Mapping[str, str]] = {}

    @property
    def connections(self) -> Connections:
        return connections_of(self)

    @property
    def connection(self) -> Connection:
        return connection_of(self)

    def on_finish(self) -> None:
        """Note in the audit log what the request changed."""
        if (audit := audit_of(self)) is not None:
            audit.note_request(self, self.path_kwargs.get("sandbox_id") or "")
        super().on_finish()

    def decode_body(self, kind: type[T]) -> T:
        """Decode the request's JSON body; an empty body counts as ``{}``.

        Raises ``InvalidArgumentError`` with the field's name, ``ResourceExhaustedError`` when the
        body is larger than ``MAX_JSON_BODY``.
        """
        raw = self.request.body or b"{}"
        if len(raw) > MAX_JSON_BODY:
            raise ResourceExhaustedError(f"the body is larger than {MAX_JSON_BODY} bytes")
        try:
            return msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise InvalidArgumentError(f"cannot decode the body: {e}") from e

    def query_number(self, name: str, default: int, most: int) -> int:
        """A whole number of the query, from 0 to ``most``; raises ``InvalidArgumentError``."""
        text = self.get_query_argument(name, str(default))
        # A number of thousands of digits would take long to read.
        if not (text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS) or int(text) > most:
            raise InvalidArgumentError(f"'{name}' must be a number from 0 to {most}")
        return int(text)

    def answer(self, record: object, status: int = 200) -> None:
        """Finish with a record or a list of records as JSON."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(msgspec.json.encode(record))

    def answer_raw(self, body: bytes) -> None:
        """Finish with JSON of the deployment, unchanged."""
        self.set_header("Cache-Control", "no-store")
        self.finish(body)

    def answer_empty(self) -> None:
        """Finish with 204."""
        self.set_status(204)
        self.finish()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer any failure with ``{"code", "message"}``."""
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        if isinstance(error, SbxError):
            self._note_failure(error)
            self.set_status(status_of(error))
            body = connect.error_to_json(error)
        else:
            body = _plain_error(status_code, error)
        self.finish(msgspec.json.encode(body))

    def _note_failure(self, error: SbxError) -> None:
        try:
            connection = self.connection
        except (NotFoundError, PermissionDeniedError):
            return  # the error is about the choice of the connection
        connection.note_failure(error, self.path_kwargs.get("sandbox_id"))

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        """Log an ``SbxError`` in one line, anything else with its traceback."""
        if isinstance(value, SbxError):
            self.log.info("%s %s: %s", self.request.method, self.request.path, logged(value))
        else:
            super().log_exception(typ, value, tb)


def _plain_error(status: int, error: BaseException | None) -> dict[str, str]:
    """The body for a status that did not come from an ``SbxError``."""
    stated = getattr(error, "log_message", None) if isinstance(error, web.HTTPError) else None
    assumed = connect.error_from_json(b"", status)
    return {"code": assumed.code, "message": stated or assumed.message}
