"""Turns the formats of an untrusted result into ones that a trusting notebook may show."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.display import formulas, frames, tables
from sbx_jupyter.display.text import clean, escaped, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_PICTURE: Final = 16 * 1024 * 1024
MAX_TEXT: Final = 1024 * 1024
MAX_MARKDOWN: Final = 64 * 1024
"""Characters; longer Markdown is shown as text, since a few brackets take long to draw."""
MAX_DEPTH: Final = 100
"""Levels of JSON."""
PLOTLY: Final = "application/vnd.plotly.v1+json"
WIDGET: Final = "application/vnd.jupyter.widget-view+json"

Bundle = dict[str, Any]


def safe_bundle(fields: Mapping[str, Any]) -> Bundle:
    """One rich format that cannot act in the page, beside the plain text.

    ``fields`` has the members of a result by name (interface 5.2). A result that is too large to
    draw, or that cannot be drawn at all, is replaced by a line that says so.
    """
    try:
        return _checked_bundle(fields)
    except Exception as error:  # whatever untrusted values do to a drawing, the cell goes on
        return {"text/plain": f"[a result that cannot be drawn: {type(error).__name__}]"}


def _checked_bundle(fields: Mapping[str, Any]) -> Bundle:
    text, _ = clean(str(fields.get("text") or ""))
    bundle: Bundle = {"text/plain": cut_text(text)}
    rich = _rich(fields)
    if rich is None and not text:
        rich = {"text/plain": _unknown(fields)}
    return bundle | (rich or {})


def as_html(fields: Mapping[str, Any]) -> str:
    """The result as HTML that cannot act in the page."""
    found = safe_bundle(fields)
    if "text/html" in found:
        return str(found["text/html"])
    for kind in ("image/png", "image/jpeg"):
        if kind in found:
            return f'<img style="max-width:100%" src="data:{kind};base64,{found[kind]}">'
    return f"<pre>{escaped(str(found['text/plain']))}</pre>"


def cut_text(text: str) -> str:
    """The text, or its beginning and a line that says what was cut."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[cut: {size(len(text) - MAX_TEXT)} more]"


def _rich(fields: Mapping[str, Any]) -> Bundle | None:
    extra: Mapping[str, Any] = fields.get("extra") or {}
    if PLOTLY in extra and (drawn := frames.plotly_frame(extra[PLOTLY])) is not None:
        return {"text/html": drawn}
    if WIDGET in extra:
        return {"text/plain": "[a widget; widgets need a notebook whose kernel is in the sandbox]"}
    for name, draw in _DRAWERS:
        if (value := fields.get(name)) and (found := draw(value)) is not None:
            return found
    if PLOTLY in extra:
        return {"text/plain": "[a plotly figure; install plotly beside this notebook to draw it]"}
    return None


def _html(value: str) -> Bundle:
    if len(value) > frames.MAX_SIZE:
        return _too_large("HTML", len(value), frames.MAX_SIZE)
    table = tables.plain_table(value)
    return {"text/html": frames.frame(value) if table is None else formulas.guarded(table)}


def _picture(kind: str) -> Callable[[str], Bundle | None]:
    def draw(value: str) -> Bundle | None:
        if len(value) > MAX_PICTURE:
            return _too_large("a picture", len(value), MAX_PICTURE)
        try:
            raw = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            return {"text/plain": "[a picture that is damaged]"}
        return {kind: base64.b64encode(raw).decode()}

    return draw


def _svg(value: str) -> Bundle:
    # As the source of an image, no script in it runs and nothing is loaded.
    if len(value) > MAX_PICTURE:
        return _too_large("a picture", len(value), MAX_PICTURE)
    encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
    return {
        "text/html": f'<img style="max-width:100%" src="data:image/svg+xml;base64,{encoded}">',
    }


def _markdown(value: str) -> Bundle:
    if len(value) > MAX_MARKDOWN:
        return {"text/plain": cut_text(clean(value)[0])}
    from sbx_jupyter.display.markdown import render

    return {"text/html": formulas.guarded(render(value))}


def _latex(value: str) -> Bundle | None:
    if len(value) > MAX_TEXT or formulas.can_act(value):
        return {"text/plain": cut_text(clean(value)[0])}
    return {"text/latex": value}


def _json(value: Any) -> Bundle | None:
    if not _is_flat(value):
        return {"text/plain": f"[JSON is not drawn: it has more than {MAX_DEPTH} levels]"}
    encoded = msgspec.json.encode(value)
    if len(encoded) > MAX_TEXT:
        return _too_large("JSON", len(encoded), MAX_TEXT)
    return {"application/json": value}


def _is_flat(value: Any) -> bool:
    """Whether JSON has so few levels that programs which keep notebooks can copy it."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _members(each)]
        if not level:
            return True
    return False


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    return cast("Bundle", value).values() if isinstance(value, dict) else ()


def _javascript(value: str) -> Bundle:
    if len(value) > frames.MAX_SIZE:
        return _too_large("JavaScript", len(value), frames.MAX_SIZE)
    return {"text/html": frames.script_frame(value)}


def _pdf(value: str) -> Bundle:
    return {"text/plain": f"[a PDF of {size(len(value) * 3 // 4)}; write it to a file to open it]"}


_DRAWERS: Final[tuple[tuple[str, Callable[[Any], Bundle | None]], ...]] = (
    ("html", _html),
    ("png", _picture("image/png")),
    ("jpeg", _picture("image/jpeg")),
    ("svg", _svg),
    ("markdown", _markdown),
    ("latex", _latex),
    ("json", _json),
    ("javascript", _javascript),
    ("pdf", _pdf),
)


def _too_large(what: str, found: int, limit: int) -> Bundle:
    return {"text/plain": f"[{what} of {size(found)} is not drawn: the limit is {size(limit)}]"}


def _unknown(fields: Mapping[str, Any]) -> str:
    extra: Mapping[str, Any] = fields.get("extra") or {}
    kinds = ", ".join(clean(kind[:80])[0] for kind in extra)
    return f"[a result that this notebook does not draw: {kinds}]" if kinds else ""
