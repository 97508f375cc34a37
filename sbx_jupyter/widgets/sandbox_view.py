"""The widget that shows files, a terminal and the resource use of a sandbox together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbx_jupyter.widgets.files import FilesWidget
from sbx_jupyter.widgets.metrics import ReadingsWidget
from sbx_jupyter.widgets.terminal import Terminal

if TYPE_CHECKING:
    from sbx_jupyter.widgets.base import Shown


class SandboxView(FilesWidget, ReadingsWidget, Terminal):
    """Shows the files, a terminal and the resource use of a sandbox, in one column on narrow pages.

    It has the traits of the three single widgets. Like that of ``Terminal``, its shell starts with
    the widget and ends with ``close``.
    """

    bundle = "sandbox.js"

    def __init__(self, sandbox: Shown, *, pid: int | None = None, **traits: Any) -> None:
        """Show ``sandbox``, with a new shell or the existing terminal of process ``pid``."""
        traits.setdefault("title", "Sandbox")
        traits.setdefault("height", "560px")
        super().__init__(sandbox, pid=pid, **traits)
