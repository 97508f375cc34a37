"""Text that came out of a sandbox: cleaned of what is no text, and cut to a length."""

from __future__ import annotations

import html
import re
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

# Everything of the C0 range but backspace, tab, line ends and escape, which begins a colour.
_CONTROLS: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f]+")
# Terminal sequences that are no colour: they move the cursor, set titles or make links.
_SEQUENCES: Final = re.compile(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z@]|\x1b\][^\x07\x1b]*|\x1b(?!\[)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def clean(text: str) -> tuple[str, int]:
    """Replace what is not text, except colours; return the text and the number replaced."""
    controls = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal controls
        length = found.end() - found.start()
        controls += length
        return REPLACEMENT * length

    # Whole runs at once: what prints binary data often prints long ones.
    cleaned = _CONTROLS.sub(replaced, _SEQUENCES.sub("", text))
    return cleaned, controls


def plain(text: str) -> str:
    """Like ``clean``, without colours."""
    return clean(_COLOURS.sub("", text))[0]


def one_line(text: str, limit: int = 200) -> str:
    """The text as one line of at most ``limit`` characters."""
    line = " ".join(plain(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def escaped(text: str) -> str:
    """Plain text for HTML, in elements and in attributes."""
    return html.escape(plain(text), quote=True)


def size(count: int) -> str:
    """A number of bytes for people: ``"3.4 MB"``."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def duration(seconds: float) -> str:
    """A time for people: ``"12 ms"``, ``"3.4 s"``, ``"2 min 5 s"``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
