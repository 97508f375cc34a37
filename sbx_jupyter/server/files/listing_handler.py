"""Route for one page of a directory, so that a browser shows a large one at once."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.runtime import DIRECTORY, EntryInfo
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import PATH, Answer, Flag, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbx_jupyter.server.files.listing_snapshots import ListingSnapshots

MAX_PAGE: Final = 2000
DEFAULT_PAGE: Final = 500
MAX_REACH: Final = 50_000
"""Entries before the end of the last page that can be asked for; ``filter`` finds the others."""

MAX_FILTER: Final = 256

_KEYS: Final[dict[str, Callable[[EntryInfo], Any]]] = {
    "name": lambda entry: (entry.name.casefold(), entry.name),
    "size": lambda entry: entry.size,
    "modified": lambda entry: entry.modified_time.timestamp() if entry.modified_time else 0.0,
    "type": lambda entry: entry.name.rpartition(".")[2].casefold() if "." in entry.name else "",
}
ORDERS: Final = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Selects and orders the entries of a directory to show; directories come first."""

    offset: int = 0
    limit: int = DEFAULT_PAGE
    sort: str = "name"
    is_descending: bool = False
    filter: str = ""
    """Part of the name, in any case."""
    shows_hidden: bool = True

    def matches(self, entry: EntryInfo) -> bool:
        """Whether the filter lets an entry through."""
        if entry.name[:1] == "." and not self.shows_hidden:
            return False
        return self.filter.casefold() in entry.name.casefold()


class Page:
    """Collects the entries of one page; holds no more than twice those up to its end."""

    def __init__(self, query: PageQuery) -> None:
        self._query = query
        self._end = query.offset + query.limit
        self._kept: list[EntryInfo] = []
        self.total = 0
        self.matching = 0

    def add(self, entries: Iterable[EntryInfo]) -> None:
        """Take some of the directory's entries, in any order."""
        for entry in entries:
            self.total += 1
            if self._query.matches(entry):
                self.matching += 1
                self._kept.append(entry)
                if len(self._kept) >= 2 * max(self._end, MAX_PAGE):
                    self._cut()

    def entries(self) -> list[EntryInfo]:
        """The entries of the page, once all were added."""
        self._cut()
        return self._kept[self._query.offset :]

    def _cut(self) -> None:
        kept = self._kept
        kept.sort(key=_KEYS["name"])
        kept.sort(key=_KEYS[self._query.sort], reverse=self._query.is_descending)
        kept.sort(key=lambda entry: entry.type != DIRECTORY)
        del kept[self._end :]


class ListingHandler(SandboxRoute):
    """Lists one page of a directory, sorted and filtered on the server.

    Query: ``path``, ``offset``, ``limit`` (default 500, at most 2000), ``sort`` (``name``,
    ``size``, ``modified`` or ``type``), ``order`` (``asc`` or ``desc``), ``filter`` (part of the
    name), ``hidden=false`` to leave out names that begin with a dot. Pages after the first go on
    with the listing of the first, if that was read within the last seconds.
    """

    queries: ClassVar = {
        "get": (
            PATH,
            Parameter("offset", "The number of entries to leave out.", int),
            Parameter("limit", "The most entries to give.", int),
            Parameter("sort", "What to sort by.", Literal["name", "size", "modified", "type"]),
            Parameter("order", "Ascending or descending.", Literal["asc", "desc"]),
            Parameter("filter", "A part of the names, in any case."),
            Parameter("hidden", "Whether to list names that begin with a dot.", Flag),
        )
    }
    answers: ClassVar = {"get": Answer({"entries": list[EntryInfo], "total": int, "matching": int})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        path = self.get_query_argument("path", "", strip=False)
        query = self._page_query()
        page = Page(query)
        runtime = await self.connection.runtime(sandbox_id)
        kept: ListingSnapshots = self.settings["sbx_jupyter"].listings
        # The first page is always what is there now; later ones go on with the same listing.
        found = kept.entries(runtime, path, may_be_kept=query.offset > 0)
        async with contextlib.aclosing(found) as pieces:
            async for piece in pieces:
                page.add(piece)
        self.answer({"entries": page.entries(), "total": page.total, "matching": page.matching})

    def _page_query(self) -> PageQuery:
        limit = self.query_number("limit", DEFAULT_PAGE, MAX_PAGE)
        return PageQuery(
            offset=self.query_number("offset", 0, MAX_REACH - limit),
            limit=limit,
            sort=self._choice("sort", tuple(_KEYS)),
            is_descending=self._choice("order", ORDERS) == "desc",
            filter=self.get_query_argument("filter", "", strip=False)[:MAX_FILTER],
            shows_hidden=self._choice("hidden", ("true", "false")) == "true",
        )

    def _choice(self, name: str, choices: tuple[str, ...]) -> str:
        text = self.get_query_argument(name, choices[0])
        if text not in choices:
            raise InvalidArgumentError(f"'{name}' must be one of {', '.join(choices)}")
        return text
