"""``python -m sbx_jupyter.server.description`` prints the description, for makers of clients."""

from __future__ import annotations

import json

from sbx_jupyter.server.description.openapi import describe
from sbx_jupyter.server.routes import HANDLERS


def text() -> str:
    """The description without a version, which clients need not be renewed for."""
    return json.dumps(describe(HANDLERS, ""), indent=1) + "\n"


if __name__ == "__main__":
    print(text(), end="")
