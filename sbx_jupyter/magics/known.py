"""A sandbox that a notebook has used, and what the notebook remembers of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.magics.notebook_metadata import remember

if TYPE_CHECKING:
    from sbx_jupyter.client import Sandbox
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.protocol.diff import Diff

TEMPLATE: Final = "code-interpreter-v1"


@dataclass(slots=True)
class Known:
    """One sandbox that the notebook has used."""

    box: Sandbox
    name: str
    extended: float = field(default_factory=time.monotonic)
    template: str = TEMPLATE
    last_snapshot: str | None = None
    ended: bool = False
    changed: tuple[int, Diff] | None = None
    """The last cell that ran here, and what the sandbox had changed since its template then."""

    def changed_before(self, cell: int) -> Diff | None:
        """Changes of the sandbox before a cell; only known if the previous cell ran here, too.

        Otherwise other cells may have written files, so that they must be compared again.
        """
        return self.changed[1] if self.changed is not None and self.changed[0] == cell - 1 else None

    @property
    def config(self) -> ConnectionConfig:
        """The connection that it is on."""
        return self.box.on_portal.platform.config

    @property
    def label(self) -> str:
        return self.name or self.box.sandbox_id

    def remember(self) -> None:
        """Let the notebook remember this sandbox."""
        remember(
            sandbox_id=self.box.sandbox_id,
            name=self.name,
            template=self.template,
            snapshot=self.last_snapshot,
        )
