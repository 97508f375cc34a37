"""Shows the events of running code in a cell, and cuts what would bury the notebook."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] - untyped there
)

from sbx_jupyter.client.code.execution import OutputMessage, Result
from sbx_jupyter.display.bundle import safe_bundle
from sbx_jupyter.display.text import clean, size

if TYPE_CHECKING:
    from sbx_jupyter.client.code.execution import Event

MAX_TEXT: Final = 1024 * 1024
"""Characters shown of what is printed, from its beginning; then its end is kept for the last."""

MAX_TAIL: Final = 8 * 1024
MAX_RESULTS: Final = 100
MAX_DISPLAYED: Final = 32 * 1024 * 1024
"""Bytes of displayed results."""


class Screen:
    """The output of one cell. Call ``finish`` at the end, also after an error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._shown = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = 0
        self._controls = 0
        self._results = 0
        self._displayed = 0
        self._undisplayed = 0
        self._to_error = False
        """Whether the last text went to standard error."""

    def show(self, event: Event, size_bytes: int) -> None:
        """Show one event that took ``size_bytes`` on the wire."""
        if self._quiet:
            return
        if isinstance(event, OutputMessage):
            self._print(event)
        elif isinstance(event, Result):
            self._display(event, size_bytes)

    def finish(self) -> None:
        """Show the end of what was cut, and say what was left out."""
        if self._tail:
            tail, controls = clean("".join(self._tail)[-MAX_TAIL:])
            self._controls += controls
            left = self._dropped + self._tail_size - len(tail)
            self._write(f"\n[cut: {size(left)} of output left out; its end follows]\n{tail}")
        if self._undisplayed:
            self._write(f"[cut: {self._undisplayed} more results are not drawn]\n", error=True)
        if self._controls:
            self._write(
                f"[{self._controls} characters that are no text were replaced]\n", error=True
            )

    def _print(self, message: OutputMessage) -> None:
        room = MAX_TEXT - self._shown
        if room > 0:
            text, controls = clean(message.line[:room])
            self._controls += controls
            self._shown += min(room, len(message.line))
            self._write(text, error=message.error)
            if self._shown >= MAX_TEXT:
                self._write(
                    "\n[cut: the code prints more than is shown, and runs on]\n", error=True
                )
        if rest := message.line[max(room, 0) :]:
            self._keep(rest)

    def _write(self, text: str, *, error: bool = False) -> None:
        """Print after what was printed to the other stream before.

        A flush of a kernel's stream waits for another thread. The kernel sends what is printed by
        itself: within 0.2 s, and before anything that is displayed.
        """
        if error != self._to_error:
            (sys.stderr if self._to_error else sys.stdout).flush()
            self._to_error = error
        target = sys.stderr if error else sys.stdout
        target.write(text)
        if not hasattr(target, "flush_interval"):
            target.flush()

    def _keep(self, rest: str) -> None:
        text = rest[-MAX_TAIL:]
        self._dropped += len(rest) - len(text)
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) > MAX_TAIL:
            removed = len(self._tail.popleft())
            self._tail_size -= removed
            self._dropped += removed

    def _display(self, result: Result, size_bytes: int) -> None:
        self._results += 1
        self._displayed += size_bytes
        if self._results > MAX_RESULTS or self._displayed > MAX_DISPLAYED:
            self._undisplayed += 1
            return
        show_bundle(safe_bundle(vars(result)))


def show_bundle(bundle: dict[str, Any], **options: Any) -> Any:
    """Display formats by their MIME types."""
    return display(bundle, raw=True, **options)


def show_html(html: str, plain: str, **options: Any) -> Any:
    """Display HTML of our own, and text where there is no HTML."""
    return show_bundle({"text/html": html, "text/plain": plain}, **options)


def write(text: str, *, error: bool = False) -> None:
    """Print to the cell at once."""
    target = sys.stderr if error else sys.stdout
    target.write(text)
    target.flush()
