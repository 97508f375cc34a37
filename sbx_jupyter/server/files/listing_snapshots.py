"""Listings of large folders, kept for a moment, so that the next page does not list all again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.server.files.entries import read_entries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.protocol.runtime import EntryInfo

KEPT_SECONDS: Final = 5.0
MAX_LISTINGS: Final = 8
MAX_ENTRIES: Final = 50_000
"""Entries of a listing that is kept; a larger one is read again for each page."""

_Key = tuple["RuntimeClient", str]


class ListingSnapshots:
    """The listings of one server that were read a moment ago.

    Each belongs to the client of one sandbox, which belongs to one user: others never get it.
    """

    def __init__(self) -> None:
        self._kept: dict[_Key, tuple[list[EntryInfo], asyncio.TimerHandle]] = {}
        """The entries, and the timer that forgets them; the oldest first."""

    async def entries(
        self, runtime: RuntimeClient, path: str, *, may_be_kept: bool
    ) -> AsyncGenerator[list[EntryInfo]]:
        """The entries of a directory, some at a time; kept ones only if that is allowed.

        Close it with ``contextlib.aclosing``. Raises the errors of ``Files.list``.
        """
        key = (runtime, path)
        if may_be_kept and (kept := self._kept.get(key)) is not None:
            yield kept[0]
            return
        found: list[EntryInfo] = []
        is_small = True
        async for piece in read_entries(runtime, path):
            is_small = is_small and len(found) + len(piece) <= MAX_ENTRIES
            if is_small:
                found.extend(piece)
            else:
                found.clear()
            yield piece
        if is_small:
            self._keep(key, found)

    def close(self) -> None:
        """Forget all."""
        for key in list(self._kept):
            self._forget(key)

    def _keep(self, key: _Key, entries: list[EntryInfo]) -> None:
        self._forget(key)
        loop = asyncio.get_running_loop()
        self._kept[key] = entries, loop.call_later(KEPT_SECONDS, self._forget, key)
        while len(self._kept) > MAX_LISTINGS:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: _Key) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            kept[1].cancel()
