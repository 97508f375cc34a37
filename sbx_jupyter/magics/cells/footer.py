"""The line below the output of a cell: where it ran, and what it used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sbx_jupyter.display.formulas import UNDRAWN
from sbx_jupyter.display.reports import MUTED
from sbx_jupyter.display.text import duration, escaped, plain, size

if TYPE_CHECKING:
    from sbx_jupyter.magics.cells.usage import Usage


def parts(label: str, usage: Usage, *notes: str) -> list[str]:
    """The facts of a footer."""
    found = [label, duration(usage.seconds)]
    if usage.cpu_seconds is not None:
        found.append(f"CPU {duration(usage.cpu_seconds)}")
    if usage.peak_memory is not None:
        found.append(f"peak memory seen {size(usage.peak_memory)}")
    if usage.changes is not None:
        count = len(usage.changes)
        found.append(f"{count} file{'' if count == 1 else 's'} changed")
    return [*found, *(note for note in notes if note)]


def footer(label: str, usage: Usage, *notes: str) -> tuple[str, str]:
    """A footer as HTML and as text."""
    facts = [plain(part) for part in parts(label, usage, *notes)]
    html = " · ".join(escaped(fact) for fact in facts)
    return (
        f'<div class="sbx-Footer {UNDRAWN}" style="{MUTED};font-size:smaller">{html}</div>',
        "[" + " | ".join(facts) + "]",
    )


# "Cell In[3], line 2", with colours between its parts.
_FRAME = re.compile(
    r"In(?P<open>\s?\[)(?P<count>\d+)(?P<between>\](?:\x1b\[[0-9;]*m|,|\s)*line )(?P<line>\d+)"
)


def renumber(traceback: str, counts: dict[int, int]) -> tuple[str, list[tuple[int, int]]]:
    """Give the cells in a traceback the numbers that they have in the notebook.

    Returns the traceback, and the cell and the line of each frame in a cell of the notebook.
    """
    frames: list[tuple[int, int]] = []

    def replace(match: re.Match[str]) -> str:
        cell = counts.get(int(match["count"]))
        if cell is None:
            return match[0]
        frames.append((cell, int(match["line"])))
        return f"In{match['open']}{cell}{match['between']}{match['line']}"

    return _FRAME.sub(replace, traceback), frames


def frame_links(frames: list[tuple[int, int]]) -> tuple[str, str]:
    """Links to the lines of a traceback in the notebook, the innermost last, as HTML and text."""
    shown = list(dict.fromkeys(frames))[-8:]
    links = " → ".join(
        f'<a class="sbx-CellLink" href="#sbx-cell={cell}&amp;line={line}">'
        f"In [{cell}] line {line}</a>"
        for cell, line in shown
    )
    plain_text = " → ".join(f"In [{cell}] line {line}" for cell, line in shown)
    return f'<div class="sbx-Frames" style="{MUTED}">{links}</div>', plain_text
