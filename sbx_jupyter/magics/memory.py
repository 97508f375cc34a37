"""Tells the notebook's page which sandbox is in use, so that the notebook remembers it.

The page keeps template, sandbox id and last snapshot in the notebook's metadata, and no token.
Where no page listens, nothing happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import comm

if TYPE_CHECKING:
    from sbx_jupyter.magics.session import Known

TARGET: Final = "sbx-jupyter:notebook"


def remember(known: Known) -> None:
    """Let the notebook remember a sandbox."""
    facts = {
        "sandbox": known.box.sandbox_id,
        "template": known.template,
        "snapshot": known.last_snapshot,
        "name": known.name,
    }
    comm.create_comm(target_name=TARGET, data=facts).close()
