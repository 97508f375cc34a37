"""Routes for the files of a volume; its token stays in the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.api.platform import segment
from sbx_jupyter.client.api.transport import raise_for_status
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.volumes import VolumeEntry
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import (
    EMPTY,
    NEEDED_PATH,
    PARTIAL_DOWNLOAD,
    PATH,
    Answer,
)
from sbx_jupyter.server.files.content import Place, StreamedFile

if TYPE_CHECKING:
    import httpx

    from sbx_jupyter.server.deployments.connection import Connection

MAX_ENTRIES: Final = 5000


async def content_place(connection: Connection, volume_id: str, route: str, path: str) -> Place:
    """The address at which a deployment serves an entry of a volume; raises ``NotFoundError``."""
    connection.require("volumes")
    found = await connection.call(lambda platform: platform.volume(volume_id))
    transport = await connection.transport()
    base = transport.config.api_url.rstrip("/")
    return Place(
        transport,
        f"{base}/volumecontent/{segment(found.volume_id)}/{route}",
        {"Authorization": f"Bearer {found.token}"},
        {"path": path},
        upload_method="PUT",
    )


class VolumeDirHandler(SandboxRoute):
    """Lists a directory of a volume, at most 5000 entries; ``POST`` makes one."""

    queries: ClassVar = {"get": (PATH,), "post": (PATH,)}
    answers: ClassVar = {
        "get": Answer({"entries": list[VolumeEntry], "total": int}),
        "post": Answer(VolumeEntry, 201),
    }

    @property
    def _track_activity(self) -> bool:
        """Whether the user did something: a page may list by itself."""
        return self.request.method != "GET"

    @web.authenticated
    @authorized
    async def get(self, volume_id: str) -> None:
        response = await self._send("GET", volume_id, {"depth": "1"})
        entries = msgspec.json.decode(response.content, type=list[VolumeEntry])
        self.answer({"entries": entries[:MAX_ENTRIES], "total": len(entries)})

    @web.authenticated
    @authorized
    async def post(self, volume_id: str) -> None:
        response = await self._send("POST", volume_id, {"force": "true"})
        self.set_status(201)
        self.answer_raw(response.content)

    async def _send(self, method: str, volume_id: str, params: dict[str, str]) -> httpx.Response:
        path = self.get_query_argument("path", "/", strip=False)
        place = await content_place(self.connection, volume_id, "dir", path)
        return await raise_for_status(
            await place.transport.request(
                method, place.url, headers=place.headers, params=place.params | params
            )
        )


class VolumeFileHandler(StreamedFile):
    """Reads a file of a volume; ``POST`` writes one, ``DELETE`` removes a file or directory."""

    bodies: ClassVar = {"post": bytes}
    queries: ClassVar = dict.fromkeys(("get", "post", "delete"), (NEEDED_PATH,))
    answers: ClassVar = {"get": PARTIAL_DOWNLOAD, "post": Answer(VolumeEntry), "delete": EMPTY}

    async def place(self) -> Place:
        path = self.path_in_query()
        found = await content_place(self.connection, self.path_kwargs["volume_id"], "file", path)
        if self.request.method == "POST":
            found.params["force"] = "true"
        return found

    @web.authenticated
    @authorized
    async def get(self, volume_id: str) -> None:
        await self.send_download()

    @web.authenticated
    @authorized
    async def post(self, volume_id: str) -> None:
        await self.receive_upload()

    @web.authenticated
    @authorized
    async def delete(self, volume_id: str) -> None:
        path = self.path_in_query()
        if not path.strip("/"):
            raise InvalidArgumentError("remove the volume instead of its root")
        place = await content_place(self.connection, volume_id, "path", path)
        await raise_for_status(
            await place.transport.request(
                "DELETE", place.url, headers=place.headers, params=place.params
            )
        )
        self.answer_empty()
