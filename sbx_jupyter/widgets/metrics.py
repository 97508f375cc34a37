"""The widget that draws the resource use of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from traitlets import Dict, List

from sbx_jupyter.widgets.base import SandboxWidget, Shown
from sbx_jupyter.widgets.still import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_READINGS: Final = 1800
"""One hour of readings; the oldest are dropped."""


class ShownReading(msgspec.Struct, frozen=True):
    """One row of the history."""

    ts: float
    cpu_count: int
    cpu_used_pct: float
    mem_used: int
    mem_total: int
    mem_cache: int
    disk_used: int
    disk_total: int


class ReadingsWidget(SandboxWidget):
    """Base of the widgets that draw readings."""

    history = List(
        Dict(),
        help="The readings that pages have shown, oldest first, as rows for a DataFrame: ``ts`` in"
        " Unix seconds, ``cpu_count``, ``cpu_used_pct`` (100 is one core), ``mem_used``,"
        " ``mem_total``, ``mem_cache``, ``disk_used`` and ``disk_total`` in bytes.",
    )

    def _take_custom(self, _: Any, content: Any, buffers: Sequence[Any]) -> None:
        if isinstance(content, dict) and "reading" in content:
            self._note(content["reading"])
        else:
            super()._take_custom(_, content, buffers)

    def _note(self, shown: Any) -> None:
        """Add a reading that a page has shown; several pages show the same."""
        try:
            reading = msgspec.to_builtins(msgspec.convert(shown, ShownReading))
        except msgspec.ValidationError:
            # A page of another version; it draws what it has.
            return
        if not self.history or self.history[-1]["ts"] < reading["ts"]:
            self.history = [*self.history[1 - MAX_READINGS :], reading]

    async def _still_rows(self) -> tuple[list[tuple[str, str]], int]:
        reading = await self._sandbox.metrics()
        cores = "1 core" if reading.cpu_count == 1 else f"{reading.cpu_count} cores"
        rows = [
            ("Processor", f"{reading.cpu_used_pct:.0f} % of {cores}"),
            ("Memory", f"{size_text(reading.mem_used)} of {size_text(reading.mem_total)}"),
            ("Disk", f"{size_text(reading.disk_used)} of {size_text(reading.disk_total)}"),
        ]
        return rows, 0


class MetricsChart(ReadingsWidget):
    """Draws the processor, memory and disk use of a sandbox since the widget was shown."""

    bundle = "metrics.js"

    def __init__(self, sandbox: Shown, **traits: Any) -> None:
        """Show ``sandbox``."""
        traits.setdefault("title", "Resources of the sandbox")
        traits.setdefault("height", "240px")
        super().__init__(sandbox, **traits)
