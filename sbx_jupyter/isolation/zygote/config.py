"""Settings common to all sandboxes of a zygote. Standard library only, for the zygote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbx_jupyter.isolation.root import stock_plan
    from sbx_jupyter.isolation.zygote import host_mounts


@dataclass(slots=True)
class ZygoteConfig:
    """The settings from the request ``init``, for every sandbox of this zygote."""

    users: str
    id_base: int
    """The host id of the sandboxes' root, where it is one for all of them."""
    own_uid: int
    own_gid: int
    plan: stock_plan.StockPlan
    host: host_mounts.HostMounts
    readable: int
    """Without namespaces: the ruleset for the host files that sandboxes may read; else -1."""
