"""Keeps a compressed upload until all of it is known to be sound."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.service.runtime.compression import GzipDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_IN_MEMORY: Final = 1024 * 1024
_PIECE: Final = 256 * 1024


class CompressedBody:
    """The compressed bytes of one body: in memory, above a megabyte in a file without a name.

    They are decompressed twice, to check them and to use them, because their content can be a
    thousand times as large.
    """

    def __init__(self, directory: Path) -> None:
        self._decoder = GzipDecoder()
        self._spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115  (``aclose`` closes it)
            max_size=_IN_MEMORY, dir=str(directory)
        )
        self._lock = threading.Lock()
        """Held while a thread uses the spool; the client may disconnect meanwhile."""

    async def receive(self, chunk: bytes) -> None:
        """Check and keep a piece; raises ``InvalidArgumentError`` and ``NoSpaceError``."""
        await asyncio.to_thread(self._keep, chunk)

    def finish(self) -> None:
        """Check that the body is complete; raises ``InvalidArgumentError``."""
        self._decoder.finish()

    async def read(self) -> AsyncIterator[bytes]:
        """The content, up to 1 MiB at a time."""
        self._spool.seek(0)
        decoder = GzipDecoder()
        while chunk := await asyncio.to_thread(self._spool.read, _PIECE):
            contents = decoder.feed(chunk)
            while (content := await asyncio.to_thread(next, contents, None)) is not None:
                yield content

    async def aclose(self) -> None:
        """Drop the kept bytes; may be called more than once."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            self._spool.close()

    def _keep(self, chunk: bytes) -> None:
        with self._lock:
            if self._spool.closed:
                return  # the client has disconnected
            for _ in self._decoder.feed(chunk):
                pass
            try:
                self._spool.write(chunk)
            except OSError as error:
                raise translate(error, "keeping a compressed upload") from error
