"""Route that reports changes in a directory of a sandbox."""

from __future__ import annotations

from typing import ClassVar

from sbx_jupyter.protocol.messages import encode
from sbx_jupyter.protocol.runtime import WatchDirRequest, WatchDirResponse
from sbx_jupyter.server.description.operations import PATH, SOCKET, Flag, Parameter
from sbx_jupyter.server.sockets import SandboxSocket


class WatchSocket(SandboxSocket):
    """Sends the text frame ``{"start": {}}`` when the watch has started, then one per event."""

    answers: ClassVar = {"get": SOCKET}
    queries: ClassVar = {
        "get": (PATH, Parameter("recursive", "Whether to watch what is below, too.", Flag))
    }

    @property
    def action(self) -> str:
        return "read"

    async def serve(self, sandbox_id: str) -> None:
        request = WatchDirRequest(
            path=self.get_query_argument("path", "", strip=False),
            recursive=self.get_query_argument("recursive", "") in ("1", "true"),
        )
        runtime = await self.connection.runtime(sandbox_id)
        stream = await runtime.stream("filesystem.Filesystem/WatchDir", request, WatchDirResponse)
        async with stream:
            async for message in stream:
                if message.start is not None:
                    await self.send_text({"start": {}})
                elif message.filesystem is not None:
                    await self.write_message(encode(message.filesystem))

    def on_message(self, message: str | bytes) -> None:
        """Ignore what the browser sends."""
