"""A watched directory, as an iterator of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.errors import UnavailableError

if TYPE_CHECKING:
    from sbx_jupyter.client.api.runtime import MessageStream
    from sbx_jupyter.protocol.runtime import FilesystemEvent, WatchDirResponse


class Watch:
    """The events of one directory: an asynchronous iterator that must be closed.

    Iterating raises ``UnavailableError`` when the sandbox is stopped.
    """

    def __init__(self, stream: MessageStream[WatchDirResponse]) -> None:
        self._stream = stream

    @classmethod
    async def begin(cls, stream: MessageStream[WatchDirResponse]) -> Watch:
        """Wait until the watch has started: it reports every change from then on.

        Raises ``UnavailableError`` when it ends before that.
        """
        try:
            async for message in stream:
                if message.start is not None:
                    return cls(stream)
            raise UnavailableError("the watch ended before it began")
        except BaseException:
            await stream.aclose()
            raise

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> FilesystemEvent:
        while True:
            message = await anext(self._stream)
            if message.filesystem is not None:
                return message.filesystem

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()
