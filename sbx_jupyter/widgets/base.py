"""The base class of the widgets: loads the front end and connects it to a sandbox by a comm."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import anywidget
from traitlets import Enum, Unicode

from sbx_jupyter.client import AsyncSandbox, Sandbox
from sbx_jupyter.client.adoption import ForeignSandbox, adopt, is_sandbox
from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.display.reports import NOT_ISOLATED
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError, SbxError
from sbx_jupyter.widgets.comm_handler import CommHandler
from sbx_jupyter.widgets.still import STILL_TYPE, Still

if TYPE_CHECKING:
    from collections.abc import Sequence

Shown = Sandbox | AsyncSandbox | ForeignSandbox
"""The kinds of sandbox that a widget shows."""

Bundle = tuple[dict[str, Any], dict[str, Any]]
"""The output of a cell, by MIME type, and its metadata."""

STILL_PATIENCE: Final = 2.0
"""Seconds that displaying a widget waits for its still picture."""

STATIC: Final = Path(__file__).resolve().parents[1] / "static"


class SandboxWidget(anywidget.AnyWidget):
    """Base of the widgets, which show one sandbox.

    If the page's Jupyter server has the extension, the front end connects to the sandbox with
    ``sandbox_id`` through the server, so that it works while the kernel is busy. Elsewhere it
    connects through the kernel.
    """

    bundle: ClassVar[str]
    """The file of the front end in ``sbx_jupyter/static``."""

    _esm = Unicode().tag(sync=True)

    sandbox_id = Unicode(read_only=True, help="The sandbox that is shown.").tag(sync=True)
    title = Unicode(help="The heading, which screen readers announce too.").tag(sync=True)
    warning = Unicode(read_only=True, help="What is shown in red above the view.").tag(sync=True)
    height = Unicode("360px", help="The height of the view, in CSS units.").tag(sync=True)
    status = Enum(
        ("unknown", "running", "paused", "ended"),
        default_value="unknown",
        help="The state of the sandbox, as a page that shows the widget sees it.",
    ).tag(sync=True)

    def __init__(self, sandbox: Shown, **traits: Any) -> None:
        """Show ``sandbox``, also one that the ``e2b`` package opened.

        Raises ``InvalidArgumentError`` for an object that is not a sandbox,
        ``FailedPreconditionError`` when the front end is not built.
        """
        self._portal = Portal.current()
        self._sandbox = connect_on(self._portal, sandbox)
        front_end = read_bundle(self.bundle)
        # Set before the comm opens, so that the front end has it from the start.
        self.set_trait("sandbox_id", self._sandbox.sandbox_id)
        super().__init__(_esm=front_end, **traits)
        self.comm_handler = CommHandler(self._portal, self._sandbox, self._send_custom)
        self.on_msg(self._take_custom)  # pyright: ignore[reportUnknownMemberType] - untyped there
        self.comm_handler.start()
        self._portal.start(self._warn())

    async def _warn(self) -> None:
        """Say in red where sandboxes are not isolated."""
        with contextlib.suppress(SbxError):
            report = await self._sandbox.isolation()
            if report is not None and report.get("tier") == "none":
                self.set_trait("warning", NOT_ISOLATED)

    def close(self) -> None:
        """Remove the widget from every page and close its connections."""
        if hasattr(self, "comm_handler"):
            self.comm_handler.close()
        super().close()

    def still(self) -> Still:
        """Return what a saved notebook shows of this widget once the kernel is gone."""
        name, (rows, more) = self._portal.call(self._look())
        taken = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        return Still(self.title, name, taken, rows, more)

    async def _look(self) -> tuple[str, tuple[list[tuple[str, str]], int]]:
        """Return the name of the sandbox, and the rows; what cannot be read in time is left out."""
        name: str = self.sandbox_id
        rows: list[tuple[str, str]] = []
        more = 0
        # The live view says what is wrong.
        with contextlib.suppress(SbxError, TimeoutError):
            async with asyncio.timeout(STILL_PATIENCE):
                name = ((await self._sandbox.get_info()).metadata or {}).get("name") or name
                rows, more = await self._still_rows()
        return name, (rows, more)

    async def _still_rows(self) -> tuple[list[tuple[str, str]], int]:
        """Return the rows of the still picture, and how many more there are."""
        return [], 0

    def _repr_mimebundle_(self, **kwargs: Any) -> Bundle | None:
        bundle = cast(
            "Bundle | None",
            super()._repr_mimebundle_(**kwargs),  # pyright: ignore[reportUnknownMemberType] - untyped
        )
        if bundle is None:
            return None
        data, metadata = bundle
        still = self.still()
        return data | {STILL_TYPE: still.to_json(), "text/html": still.to_html()}, metadata

    def _take_custom(self, _: Any, content: Any, buffers: Sequence[Any]) -> None:
        self.comm_handler.receive(content, buffers)

    def _send_custom(self, content: dict[str, Any], buffers: Sequence[bytes]) -> None:
        if self.comm is not None:
            self.send(content, list(buffers))  # pyright: ignore[reportUnknownMemberType] - untyped


def read_bundle(name: str) -> str:
    """Read a built front end; raises ``FailedPreconditionError`` with the command to build it."""
    path = STATIC / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FailedPreconditionError(
            f"the widget's front end {path} is not built; in a checkout run: make build"
        ) from None


def connect_on(portal: Portal, sandbox: object) -> AsyncSandbox:
    """Return the sandbox with connections on the portal's event loop.

    Raises ``InvalidArgumentError`` for an object that is not a sandbox.
    """
    if isinstance(sandbox, Sandbox):
        return sandbox.on_portal
    if isinstance(sandbox, AsyncSandbox):
        return AsyncSandbox(portal.platform(sandbox.platform.config), sandbox.record)
    if is_sandbox(sandbox):
        return adopt(sandbox).on_portal
    raise InvalidArgumentError(f"a widget shows a sandbox, not a {type(sandbox).__name__}")
