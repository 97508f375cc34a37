"""Draws plain tables in the page itself, by writing them anew from what they say.

A data frame's HTML comes from untrusted code. If it holds nothing but cells of text, the same table
is built here from that text and looks like the notebook's own. Everything else needs a frame.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Final

_TAGS: Final = frozenset(
    {"div", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "p", "b", "i", "em"}
)
_SPANS: Final = frozenset({"colspan", "rowspan"})
_KNOWN: Final = {
    "border": re.compile(r"\d*"),
    "class": re.compile(r"dataframe|index_name|blank( level\d)?"),
    "style": re.compile(r"text-align: ?(left|right|center);?"),
    "valign": re.compile(r"top"),
    "halign": re.compile(r"left|right"),
}
MAX_SIZE: Final = 1024 * 1024
_NO_TAG: Final = re.compile(r"<(?!/?[a-zA-Z]{1,10}(?:\s[^<>]{0,300})?/?>)")
"""A ``<`` that begins no tag of a plain table. It is refused before the parser sees it: some
parsers take quadratic time for tags that are not closed."""


class _NotPlainError(Exception):
    """The HTML holds something that a plain table does not."""


class _Rewriter(HTMLParser):
    """Writes the known tags and the text; raises ``_NotPlainError`` for anything else."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.has_table = False
        self._open: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style" and [name for name, _ in attrs] == ["scoped"]:
            self._in_style = True
            return
        if tag == "br" and not attrs:
            self.pieces.append("<br>")
            return
        if tag not in _TAGS:
            raise _NotPlainError
        kept = ""
        for name, value in attrs:
            if name in _SPANS and value is not None and re.fullmatch(r"\d{1,4}", value):
                kept += f' {name}="{value}"'
            elif name not in _KNOWN or _KNOWN[name].fullmatch(value or "") is None:
                raise _NotPlainError
        self.has_table |= tag == "table"
        self._open.append(tag)
        name = 'table class="dataframe"' if tag == "table" else tag
        self.pieces.append(f"<{name}{kept}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "style" and self._in_style:
            self._in_style = False
            return
        if not self._open or self._open.pop() != tag:
            raise _NotPlainError
        self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.pieces.append(html.escape(data))

    def handle_comment(self, data: str) -> None:
        raise _NotPlainError

    def handle_decl(self, decl: str) -> None:
        raise _NotPlainError

    def handle_pi(self, data: str) -> None:
        raise _NotPlainError

    def unknown_decl(self, data: str) -> None:
        raise _NotPlainError

    def finish(self) -> str | None:
        self.close()
        return "".join(self.pieces) if self.has_table and not self._open else None


def plain_table(untrusted: str) -> str | None:
    """The same table as HTML of our own; ``None`` if it is anything else than a plain table."""
    if len(untrusted) > MAX_SIZE or _NO_TAG.search(untrusted):
        return None
    rewriter = _Rewriter()
    try:
        rewriter.feed(untrusted)
        return rewriter.finish()
    except _NotPlainError:
        return None
