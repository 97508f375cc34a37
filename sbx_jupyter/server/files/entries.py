"""Reads the entries of a directory while they arrive, so that a large one is never held whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client.api.runtime import STREAM_SILENCE
from sbx_jupyter.client.api.transport import raise_for_status, translated_errors
from sbx_jupyter.errors import ResourceExhaustedError
from sbx_jupyter.protocol.connect import UNARY_CONTENT_TYPE
from sbx_jupyter.protocol.messages import decode, encode
from sbx_jupyter.protocol.runtime import ListDirRequest, ListDirResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.protocol.runtime import EntryInfo

CHUNK: Final = 256 * 1024
MAX_HELD: Final = 8 * 1024 * 1024
"""Bytes of an answer without the end of an entry, after which it is refused."""

_BEGIN: Final = re.compile(rb'\A\s*\{\s*"entries"\s*:\s*\[')
_HEAD: Final = b'{"entries":['
# Between two entries. A string cannot hold it: there, a quotation mark has a backslash before it,
# and one that ends the string is not followed by a letter.
_BETWEEN: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"\w+"\s*:)')


class EntryDecoder:
    """Decodes the JSON of a listing piece by piece; raises ``InvalidArgumentError`` for others."""

    def __init__(self) -> None:
        self._held = b""
        self._has_begun = False

    def feed(self, chunk: bytes) -> list[EntryInfo]:
        """The entries that end in ``chunk``; raises ``ResourceExhaustedError`` for a huge one."""
        self._held += chunk
        if not self._has_begun:
            if (begin := _BEGIN.match(self._held)) is None:
                self._check_size()
                return []
            self._held = self._held[begin.end() :]
            self._has_begun = True
        if not (ends := list(_BETWEEN.finditer(self._held))):
            self._check_size()
            return []
        whole, self._held = self._held[: ends[-1].start() + 1], self._held[ends[-1].end() :]
        return decode(ListDirResponse, _HEAD + whole + b"]}").entries

    def finish(self) -> list[EntryInfo]:
        """The last entries, once everything was fed."""
        head = _HEAD if self._has_begun else b""
        return decode(ListDirResponse, head + self._held).entries

    def _check_size(self) -> None:
        if len(self._held) > MAX_HELD:
            raise ResourceExhaustedError("the listing has an entry that is too large")


async def read_entries(
    runtime: RuntimeClient, path: str, depth: int = 1
) -> AsyncGenerator[list[EntryInfo]]:
    """The entries down to ``depth`` levels, parents first, some at a time.

    Close it with ``contextlib.aclosing``. Raises the errors of ``Files.list``.
    """
    headers = runtime.headers() | {
        "Content-Type": UNARY_CONTENT_TYPE,
        "Connect-Protocol-Version": "1",
        "Accept-Encoding": "identity",
    }
    response = await runtime.transport.open(
        "POST",
        runtime.url("/filesystem.Filesystem/ListDir"),
        headers=headers,
        content=encode(ListDirRequest(path=path, depth=depth)),
        timeout=STREAM_SILENCE,
    )
    await raise_for_status(response)
    decoder = EntryDecoder()
    try:
        with translated_errors():
            async for chunk in response.aiter_raw(CHUNK):
                if found := decoder.feed(chunk):
                    yield found
        if found := decoder.finish():
            yield found
    finally:
        await response.aclose()
