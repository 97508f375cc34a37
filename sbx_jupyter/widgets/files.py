"""The widget that shows and changes the files of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traitlets import Unicode

from sbx_jupyter.protocol.runtime import DIRECTORY
from sbx_jupyter.widgets.base import SandboxWidget, Shown
from sbx_jupyter.widgets.still import size_text

if TYPE_CHECKING:
    from sbx_jupyter.protocol.runtime import EntryInfo

STILL_ROWS: Final = 30


class FilesWidget(SandboxWidget):
    """Base of the widgets that show files."""

    path = Unicode(
        "/home/user", help="The directory that is shown; follows the page and moves it."
    ).tag(sync=True)
    selected = Unicode(
        "", help="The path of the file or directory that was chosen last, or empty."
    ).tag(sync=True)

    def refresh(self) -> None:
        """Make every view list its directory again."""
        self.comm_handler.refresh()

    async def _still_rows(self) -> tuple[list[tuple[str, str]], int]:
        entries = await self._sandbox.files.list(self.path)
        entries.sort(key=lambda entry: (entry.type != DIRECTORY, entry.name))
        rows = [_row(entry) for entry in entries[:STILL_ROWS]]
        return rows, max(0, len(entries) - STILL_ROWS)


class FileBrowser(FilesWidget):
    """Shows the files of a sandbox, to browse, open, upload, move and remove them."""

    bundle = "files.js"

    def __init__(self, sandbox: Shown, **traits: Any) -> None:
        """Show ``sandbox``, starting at the trait ``path``."""
        traits.setdefault("title", "Files of the sandbox")
        super().__init__(sandbox, **traits)


def _row(entry: EntryInfo) -> tuple[str, str]:
    if entry.type == DIRECTORY:
        return f"{entry.name}/", ""
    return entry.name, size_text(entry.size)
