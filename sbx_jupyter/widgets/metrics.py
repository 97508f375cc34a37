"""The widget that draws how much of the machine a sandbox uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbx_jupyter.widgets.base import SandboxWidget

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox, Sandbox


class MetricsChart(SandboxWidget):
    """Processor, memory and disk of a sandbox, as they are now and were since it is shown."""

    bundle = "metrics.js"

    def __init__(self, sandbox: Sandbox | AsyncSandbox, **traits: Any) -> None:
        """Show ``sandbox``."""
        traits.setdefault("title", "Resources of the sandbox")
        traits.setdefault("height", "240px")
        super().__init__(sandbox, **traits)
