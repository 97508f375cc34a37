"""Plans the stock root file system of this host and this Python."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.isolation.root import package_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STOCK_VERSION: Final = 7

TOP_LEVEL: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True, slots=True)
class HostTree:
    """A directory of the host that is seen at the same path inside."""

    path: str
    writable: bool
    """Laid over, so that writes land in the sandbox; else read-only."""
    chosen: bool = False
    """Seen only by sandboxes whose makers asked for it; else by all."""


@dataclass(frozen=True, slots=True)
class StockPlan:
    """The parts of the stock root file system; the same plan gives the same layer."""

    real_users: bool
    """``root`` and ``user`` are two ids; else both are names for id 0."""
    host_root_mapped: bool
    """The host's root is the sandbox's root, so set-uid programs of the host work."""
    python: str
    trees: tuple[HostTree, ...]
    site_packages: tuple[str, ...]
    needed: tuple[str, ...]
    """Paths of the engine's Python: never hidden, whatever lies around it."""
    fingerprint: str = field(default="")

    def to_json(self) -> dict[str, Any]:
        """The plan as the zygote receives it."""
        return asdict(self)

    @staticmethod
    def from_json(raw: dict[str, Any]) -> StockPlan:
        """The inverse of ``to_json``."""
        return StockPlan(
            real_users=raw["real_users"],
            host_root_mapped=raw["host_root_mapped"],
            python=raw["python"],
            trees=tuple(HostTree(**tree) for tree in raw["trees"]),
            site_packages=tuple(raw["site_packages"]),
            needed=tuple(raw["needed"]),
            fingerprint=raw["fingerprint"],
        )


@dataclass(frozen=True, slots=True)
class KnownStock:
    """A stock layer that stands, and what it was built from."""

    layer: Path
    plan: StockPlan


def plan_stock(
    *, real_users: bool, host_root_mapped: bool, chosen: Sequence[str] = ()
) -> StockPlan:
    """The stock root file system for this host and this Python.

    ``chosen`` are more directories of the host, which some sandboxes may see read-only.
    """
    base, prefix = os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)
    trees = [HostTree("/usr", writable=True)]
    trees += [
        HostTree(f"/{name}", writable=True)
        for name in TOP_LEVEL
        if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")
    ]
    for path, writable in ((base, True), (prefix, False)):
        if not any(path == t.path or path.startswith(t.path + "/") for t in trees):
            trees.append(HostTree(path, writable))
    # One may lie in a directory that all see, and be hidden there; so its mount comes last.
    trees += [HostTree(path, writable=False, chosen=True) for path in sorted(chosen)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = os.path.join(base, "bin", f"python{version}")
    site = (os.path.join(prefix, "lib", f"python{version}", "site-packages"),)
    plan = StockPlan(
        real_users=real_users,
        host_root_mapped=host_root_mapped,
        python=python,
        trees=tuple(trees),
        site_packages=site if prefix != base else (),
        needed=(base, prefix),
    )
    return StockPlan.from_json({**plan.to_json(), "fingerprint": _fingerprint(plan)})


def _fingerprint(plan: StockPlan) -> str:
    parts: list[Any] = [STOCK_VERSION, plan.to_json()]
    looked_at = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/pam.d")
    for path in (*looked_at, f"/{package_tables.STATUS}"):
        try:
            parts.append(os.stat(path).st_mtime_ns)
        except OSError:
            parts.append(None)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def stock_name(plan: StockPlan, hidden: Sequence[str]) -> str:
    """The name of the stock layer of a plan that hides these paths of the host."""
    parts = [plan.fingerprint, *hidden]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]
