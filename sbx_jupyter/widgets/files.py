"""The widget that shows and changes the files of a sandbox."""

from __future__ import annotations

from typing import Any

from traitlets import Unicode

from sbx_jupyter.widgets.base import SandboxWidget, Shown


class FileBrowser(SandboxWidget):
    """Shows the files of a sandbox, to browse, open, upload, move and remove them."""

    bundle = "files.js"

    path = Unicode("/home/user", help="The directory that is shown first.").tag(sync=True)

    def __init__(self, sandbox: Shown, **traits: Any) -> None:
        """Show ``sandbox``, starting at the trait ``path``."""
        traits.setdefault("title", "Files of the sandbox")
        super().__init__(sandbox, **traits)

    def refresh(self) -> None:
        """Make every view list its directory again."""
        self.comm_handler.refresh()
