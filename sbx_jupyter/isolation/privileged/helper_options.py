"""The options that a helper gets at its start, from a process that no client speaks to."""

from __future__ import annotations

import msgspec


class HelperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Paths and ids that the engine has no say in once it serves clients."""

    data_dir: str
    isolation: str
    owner: int
    """The user id of the engine: of the files that it hands over."""
    connection_file: str
    cpu_weight: int
    host_ids: str
    """``FIRST-LAST``, for the sandboxes."""
    network: str = "proxy"
    """``full``: sandboxes get an interface for the whole network."""
