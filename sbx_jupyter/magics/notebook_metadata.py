"""Tells the notebook's page which sandbox is in use, so that the notebook remembers it.

The page keeps template, sandbox id and last snapshot in the notebook's metadata, and no token.
Where no page listens, nothing happens.
"""

from __future__ import annotations

from typing import Final

import comm

TARGET: Final = "sbx-jupyter:notebook"


def remember(*, sandbox_id: str, name: str, template: str, snapshot: str | None) -> None:
    """Let the notebook remember a sandbox."""
    facts = {"sandbox": sandbox_id, "template": template, "snapshot": snapshot, "name": name}
    comm.create_comm(target_name=TARGET, data=facts).close()
