"""The widget that draws the resource use of a sandbox."""

from __future__ import annotations

from typing import Any

from sbx_jupyter.widgets.base import SandboxWidget, Shown


class MetricsChart(SandboxWidget):
    """Draws the processor, memory and disk use of a sandbox since the widget was shown."""

    bundle = "metrics.js"

    def __init__(self, sandbox: Shown, **traits: Any) -> None:
        """Show ``sandbox``."""
        traits.setdefault("title", "Resources of the sandbox")
        traits.setdefault("height", "240px")
        super().__init__(sandbox, **traits)
