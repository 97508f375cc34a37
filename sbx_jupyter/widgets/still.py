"""The still picture that a saved notebook shows of a widget whose kernel is gone."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.display.formulas import UNDRAWN

if TYPE_CHECKING:
    from collections.abc import Sequence

STILL_TYPE: Final = "application/vnd.sbx.still+json"
"""MIME type of a ``Still``, which the JupyterLab extension shows while there is no live widget."""

KIB: Final = 1024

RECONNECT: Final = "Run the cell to reconnect."


class Still(msgspec.Struct, frozen=True):
    """The content of the widget when it was displayed."""

    title: str
    sandbox: str
    """The name of the sandbox, or its id."""
    taken: str
    """The time, as people read it."""
    rows: Sequence[tuple[str, str]] = ()
    """Names and what is beside them, for example files and their sizes."""
    more: int = 0
    """Number of rows that were left out."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for the front end."""
        return msgspec.to_builtins(self)

    def to_html(self) -> str:
        """Return HTML for pages without the extension; nothing in it is executed or loaded."""
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(name)}</td>"
            f"<td style='text-align:right'>{html.escape(value)}</td></tr>"
            for name, value in self.rows
        )
        table = f"<table>{rows}</table>" if rows else ""
        more = f"<p>{self.more} more</p>" if self.more else ""
        head = f"{self.title}: {self.sandbox}, {self.taken}"
        return (
            f"<div class='sbx-Still {UNDRAWN}'>"
            f"<p><strong>{html.escape(head)}</strong></p>{table}{more}<p>{RECONNECT}</p></div>"
        )


def size_text(size: int) -> str:
    """Write a number of bytes in the largest unit that it fills: ``1536`` is ``1.5 KiB``."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:.1f} {unit}" if value % 1 else f"{value:.0f} {unit}"
