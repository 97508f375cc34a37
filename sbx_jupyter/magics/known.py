"""A sandbox that a notebook has used, and what the notebook remembers of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.magics.memory import remember

if TYPE_CHECKING:
    from sbx_jupyter.client import Sandbox

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
