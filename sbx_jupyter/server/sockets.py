"""The base of the WebSocket routes: authorization, errors and closing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.protocol.connect import error_to_json
from sbx_jupyter.server.answers import (
    RESOURCE,
    audit_of,
    connection_of,
    logged,
    require,
    status_of,
)

if TYPE_CHECKING:
    from sbx_jupyter.server.deployments.connection import Connection

NORMAL_CLOSURE: Final = 1000
ERROR_CLOSURE: Final = 4000
"""After an error, the close code is this plus its HTTP status, such as 4404 for "not found"."""


# The classes of tornado and jupyter_server annotate the same methods differently.
class SandboxSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Base of the WebSocket routes; ``serve`` runs from the handshake until either side closes.

    A browser cannot read why a handshake failed. So errors of ``serve`` are sent after it, in a
    text frame ``{"error": {"code", "message"}}``, and then the socket closes.
    """

    auth_resource = RESOURCE

    @property
    def action(self) -> str:
        """The action on sandboxes that the user needs permission for."""
        return "execute"

    _serving: asyncio.Task[None] | None = None

    @property
    def connection(self) -> Connection:
        return connection_of(self)

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Accept the handshake if the user has permission for ``action``; else raise 403."""
        await require(self, self.action)
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Start ``serve`` as a task, while tornado reads the browser's frames."""
        if self.action != "read" and (audit := audit_of(self)) is not None:
            audit.note(self, "terminal", kwargs["sandbox_id"])
        super().open(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType] - untyped there
        self._serving = asyncio.create_task(self._serve(kwargs["sandbox_id"]))

    def on_close(self) -> None:
        """Cancel ``serve``; the sandbox is not changed."""
        super().on_close()
        if self._serving is not None:
            self._serving.cancel()

    async def serve(self, sandbox_id: str) -> None:
        """Serve the browser. Returning closes the socket; an ``SbxError`` is sent to it first."""
        raise NotImplementedError

    async def send_text(self, record: object) -> None:
        """Send a text frame of JSON; waits until the send buffer has room."""
        await self.write_message(msgspec.json.encode(record))

    def number_argument(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number in the query, from ``least`` to ``most``.

        Raises ``InvalidArgumentError``.
        """
        text = self.get_query_argument(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 20) or not (
            least <= int(text) <= most
        ):
            raise InvalidArgumentError(f"'{name}' must be a number from {least} to {most}")
        return int(text)

    async def _serve(self, sandbox_id: str) -> None:
        try:
            await self.serve(sandbox_id)
            self.close(NORMAL_CLOSURE)
        except SbxError as e:
            self.log.info("%s: %s", self.request.path, logged(e))
            self.connection.note_failure(e, sandbox_id)
            with contextlib.suppress(WebSocketClosedError, StreamClosedError):
                await self.send_text({"error": error_to_json(e)})
            self.close(ERROR_CLOSURE + status_of(e))
        except (WebSocketClosedError, StreamClosedError):
            self.log.debug("%s: the browser disconnected", self.request.path)
        except asyncio.CancelledError:
            raise
        except Exception:
            # No caller awaits this task, so the error is handled here; otherwise the socket would
            # stay open and the browser would wait for ever.
            self.log.exception("%s failed", self.request.path)
            self.close(1011)
