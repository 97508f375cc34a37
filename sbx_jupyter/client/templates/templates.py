"""The client of the platform API for building templates (interface 7.1)."""

from __future__ import annotations

import asyncio
import os
from typing import IO, TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec.structs import replace

from sbx_jupyter.client.api.platform import PlatformClient, decoded, segment
from sbx_jupyter.client.api.transport import create_client, raise_for_status
from sbx_jupyter.errors import FailedPreconditionError, UnavailableError
from sbx_jupyter.protocol import templates as records
from sbx_jupyter.protocol.access import API_KEY_HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sbx_jupyter.client.templates.build_context import BuildContext

T = TypeVar("T")

_POLL: Final = 0.2
_CHUNK: Final = 256 * 1024


class TemplateClient(PlatformClient):
    """Adds the calls that build and remove templates to ``PlatformClient``."""

    async def build(
        self,
        request: records.TemplateRequest,
        start: records.BuildStart,
        context: BuildContext,
        say: Callable[[records.BuildLogEntry], None],
    ) -> records.TemplateAnswer:
        """Build a template, and pass each entry of its log to ``say`` until the end.

        Uploads the files of ``context`` that COPY steps need. Raises ``FailedPreconditionError``
        with the reason when the build fails.
        """
        asked = await self.begin(request, start, context)
        await self._follow(asked, say)
        return asked

    async def begin(
        self, request: records.TemplateRequest, start: records.BuildStart, context: BuildContext
    ) -> records.TemplateAnswer:
        """Begin a build as ``build`` does, and do not wait for its end."""
        asked = await self._call("POST", "/v3/templates", records.TemplateAnswer, request)
        steps = [await self._prepare(asked, step, context) for step in start.steps or []]
        where = f"{segment(asked.template_id)}/builds/{segment(asked.build_id)}"
        await self._send("POST", f"/v2/templates/{where}", body=replace(start, steps=steps))
        return asked

    async def build_status(
        self, template_id: str, build_id: str, offset: int = 0
    ) -> records.BuildInfo:
        """The status of a build, and a page of its log from ``offset`` on.

        Raises ``NotFoundError``.
        """
        path = f"/templates/{segment(template_id)}/builds/{segment(build_id)}/status"
        response = await self._send("GET", path, params={"logsOffset": str(offset)})
        return decoded(response, records.BuildInfo)

    async def cancel_build(self, template_id: str, build_id: str) -> bool:
        """Cancel a build; false when there is none, or for other deployments than the engine.

        Raises ``AbortedError`` when it does not run.
        """
        path = f"/engine/templates/{segment(template_id)}/builds/{segment(build_id)}"
        return await self._done("DELETE", path)

    async def remove_template(self, reference: str) -> bool:
        """Remove a template by id or name; false when there is no such template."""
        return await self._done("DELETE", f"/templates/{quote(reference, safe='')}")

    async def import_image(self, name: str, file: IO[bytes]) -> records.ImportedImage:
        """Import the image in a tar file under ``name``, to be used as ``fromImage``.

        Raises ``UnavailableError`` when the upload fails.
        """
        url = f"{self.config.api_url.rstrip('/')}/engine/images/{quote(name, safe='')}"
        response = await self._put(url, file, {API_KEY_HEADER: self.config.api_key})
        return msgspec.json.decode(response.content, type=records.ImportedImage)

    async def _prepare(
        self, asked: records.TemplateAnswer, step: records.Step, context: BuildContext
    ) -> records.Step:
        """Upload the files of a COPY step unless the deployment has them; add their hash to it."""
        if step.type != "COPY" or not step.args:
            return step
        source, target = step.args[:2]
        names = await asyncio.to_thread(context.find, source)
        files_hash = await asyncio.to_thread(context.hash, source, target, names)
        path = f"/templates/{quote(asked.template_id)}/files/{files_hash}"
        link = await self._call("GET", path, records.FileUpload)
        if not link.present and link.url is not None:
            with await asyncio.to_thread(context.pack, names) as file:
                await self._put(link.url, file, {})
        return replace(step, files_hash=files_hash)

    async def _follow(
        self, asked: records.TemplateAnswer, say: Callable[[records.BuildLogEntry], None]
    ) -> None:
        seen = 0
        while True:
            info = await self.build_status(asked.template_id, asked.build_id, seen)
            seen += len(info.log_entries)
            for entry in info.log_entries:
                say(entry)
            if info.log_entries:
                continue
            if info.status == "ready":
                return
            if info.status == "error":
                reason = info.reason
                known = isinstance(reason, records.BuildReason)
                raise FailedPreconditionError(reason.message if known else "the build failed")
            await asyncio.sleep(_POLL)

    async def _put(self, url: str, file: IO[bytes], headers: dict[str, str]) -> httpx.Response:
        size = os.fstat(file.fileno()).st_size
        sent = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        try:
            # The configured headers are for the deployment, which may store uploads elsewhere.
            async with create_client(self.config, url) as client:
                response = await client.put(
                    url, content=_pieces(file), headers=sent | headers, timeout=None
                )
        except httpx.TransportError as error:
            raise UnavailableError(f"the upload failed: {error}") from error
        return await raise_for_status(response)

    async def _call(
        self, method: str, path: str, kind: type[T], body: msgspec.Struct | None = None
    ) -> T:
        response = await self._send(method, path, body=body)
        return msgspec.json.decode(response.content, type=kind)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, _CHUNK):
        yield chunk
