"""HTML of sandboxes, their files, commands and executions, as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.display import bundle
from sbx_jupyter.display.formulas import UNDRAWN
from sbx_jupyter.display.text import escaped, one_line, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHOWN: Final = 4000
"""Characters of each output stream in a report; the rest is said to be there."""

MUTED: Final = "color:var(--jp-ui-font-color2,#666)"
BAD: Final = "color:var(--jp-error-color1,#c00)"
_CARD: Final = (
    "border:1px solid var(--jp-border-color2,#ccc);border-radius:4px;padding:6px 10px;"
    "display:inline-block;max-width:100%;box-sizing:border-box"
)


NOT_ISOLATED: Final = "Not isolated: programs of a sandbox can do all that the engine's user may."
_WARNING: Final = "background:#b3261e;color:#fff;font-weight:bold;padding:2px 8px;border-radius:4px"


def card(title: str, rows: Iterable[tuple[str, str]], *, warning: str = "") -> str:
    """A box with a title, a warning in red and rows of a name and a text, all of it escaped."""
    red = f'<div style="{_WARNING}">{escaped(warning)}</div>' if warning else ""
    lines = "".join(
        f'<tr><th style="text-align:left;{MUTED};font-weight:normal">{escaped(name)}</th>'
        f'<td style="text-align:left">{escaped(text)}</td></tr>'
        for name, text in rows
    )
    return (
        f'<div class="sbx-Card {UNDRAWN}" style="{_CARD}"><b>{escaped(title)}</b>{red}'
        f'<table style="margin:4px 0 0">{lines}</table></div>'
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, all of them escaped."""
    head = "".join(f'<th style="text-align:left">{escaped(text)}</th>' for text in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escaped(t)}</td>' for t in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table class="sbx-Table {UNDRAWN}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def stream(text: str, *, is_error: bool = False) -> str:
    """The end of what was printed, as HTML; nothing for no text."""
    if not text:
        return ""
    cut = len(text) - SHOWN
    note = f'<div style="{MUTED}">[{size(cut)} before this]</div>' if cut > 0 else ""
    colour = f";{BAD}" if is_error else ""
    shown = escaped(text[-SHOWN:])
    return f'{note}<pre style="margin:2px 0;white-space:pre-wrap{colour}">{shown}</pre>'


def execution(
    *,
    stdout: str,
    stderr: str,
    results: Sequence[Mapping[str, Any]],
    error: tuple[str, str] | None,
    truncated: bool,
) -> str:
    """Report of one run of code: what it printed, displayed and raised."""
    parts = [stream(stdout), stream(stderr, is_error=True)]
    parts += [f"<div>{bundle.as_html(result)}</div>" for result in results]
    if error is not None:
        name, value = error
        said = f"<b>{escaped(name)}</b>: {escaped(value)}"
        parts.append(f'<div class="{UNDRAWN}" style="{BAD}">{said}</div>')
    if truncated:
        parts.append(f'<div style="{MUTED}">[some of the output was too large to keep]</div>')
    return f'<div class="sbx-Execution">{"".join(parts) or "(no output)"}</div>'


def command(*, stdout: str, stderr: str, exit_code: int, error: str | None) -> str:
    """Report of one command: what it printed, and how it ended."""
    ended = f"exit code {exit_code}" + (f", {one_line(error)}" if error else "")
    style = BAD if exit_code else MUTED
    return (
        f'<div class="sbx-Command {UNDRAWN}">{stream(stdout)}{stream(stderr, is_error=True)}'
        f'<div style="{style}">{escaped(ended)}</div></div>'
    )


def sandbox(sandbox_id: str, template: str, address: str) -> str:
    """Report that identifies a sandbox; makes no request, so that showing it never waits."""
    rows = [("id", sandbox_id), ("template", template), ("at", address)]
    return card("Sandbox", rows)


def entry(name: str, kind: str, path: str, details: Iterable[tuple[str, str]]) -> str:
    """One file, directory or link."""
    return card(name, [("path", path), ("kind", kind), *details])


def sandboxes(rows: Iterable[Sequence[str]]) -> str:
    """A list of sandboxes: name, id, template, state and end of each."""
    return table(["name", "sandbox", "template", "state", "ends (UTC)"], rows)
