"""Frames in which untrusted HTML and JavaScript run without reaching the page.

A frame is sandboxed without ``allow-same-origin``: it has an opaque origin, so no cookies, no
storage, no access to the page and no way to navigate it. Its content security policy lets it load
nothing from a network.
"""

from __future__ import annotations

import html
import importlib
import re
from typing import Final

import msgspec

MAX_SIZE: Final = 8 * 1024 * 1024
"""Characters of HTML that are still drawn."""

_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; worker-src blob:; "
    "form-action 'none'; base-uri 'none'"
)
_STYLE: Final = (
    "body{margin:8px;background:#fff;color:#111;font:13px system-ui,sans-serif}"
    "table{border-collapse:collapse}td,th{padding:3px 8px;text-align:right;border:0}"
    "tr:nth-child(even){background:#f5f5f5}thead{border-bottom:1px solid #bbb}"
)
_FRAME: Final = (
    '<iframe class="sbx-Frame" sandbox="allow-scripts" allow="" referrerpolicy="no-referrer" '
    'title="Output of a sandbox" style="width:100%;height:{height}px;resize:vertical;'
    'overflow:auto;border:1px solid var(--jp-border-color2,#ccc);background:#fff" '
    'srcdoc="{document}"></iframe>'
)
_ROW: Final = re.compile(r"<tr\b", re.IGNORECASE)
_ROW_HEIGHT: Final = 26
_LEAST, _MOST, _USUAL = 80, 480, 320


def frame(body: str, *, height: int | None = None) -> str:
    """The HTML of a frame around an untrusted document or a part of one."""
    head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style>'
    document = f'<!doctype html><meta charset="utf-8">{head}{body}'
    return _FRAME.format(height=height or _height(body), document=html.escape(document))


def script_frame(code: str) -> str:
    """A frame in which untrusted JavaScript runs, with an ``element`` to draw in."""
    safe = code.replace("</", "<\\/").replace("<!--", "<\\!--")
    return frame(
        '<div id="element"></div>'
        f"<script>const element = document.getElementById('element');\n{safe}</script>",
        height=_USUAL,
    )


def plotly_frame(figure: object) -> str | None:
    """A frame that draws a plotly figure; ``None`` where plotly is not installed here."""
    try:
        offline = importlib.import_module("plotly.offline")
    except ImportError:
        return None
    drawn = msgspec.json.encode(figure).decode().replace("</", "<\\/").replace("<!--", "<\\!--")
    library = str(offline.get_plotlyjs())
    return frame(
        f'<div id="figure"></div><script>{library}</script><script>const figure = {drawn};\n'
        "Plotly.newPlot('figure', figure.data || [], figure.layout || {}, "
        "{responsive: true});</script>",
        height=_MOST,
    )


def _height(body: str) -> int:
    rows = len(_ROW.findall(body))
    return max(_LEAST, min(_MOST, 40 + rows * _ROW_HEIGHT)) if rows else _USUAL
