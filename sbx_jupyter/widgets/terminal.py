"""The widget that shows a terminal of a sandbox."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from traitlets import Bunch, Int, observe

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.errors import SbxError
from sbx_jupyter.widgets.base import SandboxWidget, Shown, connect_on, read_bundle

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox


class Terminal(SandboxWidget):
    """Shows a terminal in a sandbox; all views of the widget show the same one.

    The shell starts with the widget, not with the first view, so that it need not wait for a
    message of the front end. It keeps running when the page is closed, and ends with ``close``.
    When it has exited, the user can begin another one in the page, which takes its place.
    """

    bundle = "terminal.js"

    _owned: tuple[Portal, AsyncSandbox, int] | None = None
    """The shell of this widget, if it is not another's, its sandbox, and the portal to reach it."""

    pid = Int(read_only=True, help="The process id of the terminal's shell.").tag(sync=True)

    def __init__(self, sandbox: Shown, *, pid: int | None = None, **traits: Any) -> None:
        """Start a login shell in ``sandbox``, or show the existing terminal of process ``pid``."""
        read_bundle(self.bundle)
        if pid is None:
            portal = Portal.current()
            connected = connect_on(portal, sandbox)
            pid = portal.call(_start_shell(connected))
            self._owned = portal, connected, pid
        self.set_trait("pid", pid)
        traits.setdefault("title", "Terminal of the sandbox")
        try:
            super().__init__(sandbox, **traits)
        except BaseException:
            # Nobody has the widget, so nobody could end its shell.
            self._end_owned_shell()
            raise

    @observe("pid")
    def _take_over(self, change: Bunch) -> None:
        """Own the shell that a page began in the place of one that had exited."""
        if hasattr(self, "comm_handler"):
            self._owned = self._portal, self._sandbox, change["new"]

    def close(self) -> None:
        """Remove the widget, and end the shell if the widget started it."""
        self._end_owned_shell()
        super().close()

    def _end_owned_shell(self) -> None:
        owned, self._owned = self._owned, None
        if owned is not None:
            # No other portal: widgets are closed when Python ends, too, and no thread starts then.
            portal, sandbox, pid = owned
            portal.start(_end_shell(sandbox, pid))


async def _start_shell(sandbox: AsyncSandbox) -> int:
    async with await sandbox.pty.create() as terminal:
        return terminal.pid


async def _end_shell(sandbox: AsyncSandbox, pid: int) -> None:
    # If the sandbox has ended, the shell has ended too.
    with contextlib.suppress(SbxError):
        await sandbox.commands.kill(pid)
