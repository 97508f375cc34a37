"""Route that tells a page by server-sent events what changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final, NotRequired, TypedDict

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.protocol.platform import ListedSandbox
from sbx_jupyter.server.deployments.changes import Changes
from sbx_jupyter.server.description.operations import Failure, events
from sbx_jupyter.server.kernels.kernel_routes import KernelPlace, kernel_places
from sbx_jupyter.server.processes import ShownPort, show_port
from sbx_jupyter.server.sandboxes import ServerInfo, describe_server
from sbx_jupyter.server.streams import ALIVE, HEARTBEAT, LAST_EVENT, EventStream

if TYPE_CHECKING:
    from sbx_jupyter.server.deployments.changes import Page
    from sbx_jupyter.server.deployments.connection import Connection

LONGEST: Final = 3600.0
"""Seconds until a page must connect again, so that its login and permissions are checked again."""

_RETRY_MS: Final = 2000


class ServerState(TypedDict):
    """Everything that a page shows; ``problem`` if the list could not be read."""

    sandboxes: list[ListedSandbox]
    kernels: list[KernelPlace]
    info: ServerInfo
    problem: NotRequired[Failure]


class ChangedItems(TypedDict, total=False):
    """What to read again: ids, and names of secrets."""

    templates: list[str]
    snapshots: list[str]
    volumes: list[str]
    secrets: list[str]


class EventsHandler(EventStream):
    """Follows the sandboxes of a connection by server-sent events.

    First ``state`` with all of ``{"sandboxes", "kernels", "info"}``, and ``problem`` if the list
    could not be read; or, with ``Last-Event-ID``, what came after that event if it is still known.
    Then ``sandbox`` (one that is new or has changed), ``ended``, ``kernels``, ``info``, ``ports``
    (of one sandbox), ``problem`` (``null`` once it is over) and ``changed``, which names what to
    read again: ids of ``templates``, ``snapshots``, ``volumes`` and names of ``secrets``.
    """

    queries: ClassVar = {"get": (LAST_EVENT,)}
    answers: ClassVar = {
        "get": events(
            state=ServerState,
            sandbox=ListedSandbox,
            ended={"sandboxID": str},
            kernels=list[KernelPlace],
            info=ServerInfo,
            ports={"sandboxID": str, "ports": list[ShownPort]},
            changed=ChangedItems,
            problem=Failure | None,
        )
    }

    _page: Page | None = None

    @web.authenticated
    @authorized
    async def get(self) -> None:
        connection = self.connection
        changes = connection.changes or self._begin(connection)
        self._page = page = changes.add(self.last_event)
        end = asyncio.get_running_loop().time() + LONGEST
        try:
            await self.begin()
            await self.send(f"retry: {_RETRY_MS}\n\n")
            while not page.is_closed and asyncio.get_running_loop().time() < end:
                if page.needs_state:
                    await self.send(await changes.state(page))
                await self.send(await _next(page))
                if not self.get_query_argument("connection", "") and (
                    self.connections.default is not connection
                ):
                    return  # the page connects again, and gets those of the other one
        except StreamClosedError:
            return
        finally:
            changes.remove(page)

    def on_connection_close(self) -> None:
        if self._page is not None:
            self._page.close()
        super().on_connection_close()

    def _begin(self, connection: Connection) -> Changes:
        manager, connections, base_url = self.kernel_manager, self.connections, self.base_url
        access = self.settings["sbx_jupyter"].ports

        async def facts() -> dict[str, Any]:
            return {
                "kernels": await kernel_places(manager),
                "info": describe_server(access, connections, connection),
            }

        connection.changes = Changes(
            connection, facts, lambda port, sandbox_id: show_port(port, sandbox_id, base_url)
        )
        return connection.changes


async def _next(page: Page) -> str:
    """The next events, or a comment when there were none for a while."""
    try:
        async with asyncio.timeout(HEARTBEAT):
            await page.wait()
    except TimeoutError:
        return ALIVE
    return page.take()
