"""The groups of rows: what is measured on one engine, and is one section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.benchmarks import btrfs, containers, web_servers
from tests.benchmarks.groups import (
    browser,
    bursts,
    contents,
    density,
    files,
    interpreter,
    kernels,
    loopback,
    off_pool,
    proxies,
    reflinks,
    snapshots,
    starts,
    streams,
    terminals,
)
from tests.benchmarks.harness import most_sandboxes, running_engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.benchmarks.contests import Row
    from tests.benchmarks.harness import EngineClient


class Group(NamedTuple):
    """Rows that are measured on one engine, which is started with ``options``."""

    title: str
    rows: tuple[Row, ...]
    is_default: bool = False
    """Whether it is measured when no group is named."""
    options: tuple[str, ...] = ()
    missing: Callable[[], dict[str, str]] = dict[str, str]
    """The peers that this machine does not have, each with the reason."""
    engine: Callable[..., AbstractContextManager[EngineClient]] = running_engine
    """Starts the engine with the options; called only if a row can be measured."""


GROUPS: Final = {
    "starts": Group("Starts", starts.ROWS, is_default=True, missing=containers.not_usable),
    "off-pool": Group(
        "Starts without a ready sandbox",
        off_pool.ROWS,
        options=("--SbxEngine.pool_size=0", most_sandboxes()),
        missing=containers.not_usable,
    ),
    "files": Group("Files", files.ROWS, is_default=True, missing=web_servers.not_installed),
    "terminals": Group("Terminals", terminals.ROWS, is_default=True),
    "streams": Group("Streams", streams.ROWS, is_default=True),
    "snapshots": Group("Snapshots and forks", snapshots.ROWS),
    "btrfs": Group("Snapshots and forks on btrfs", reflinks.ROWS, engine=btrfs.engine_on_btrfs),
    "bursts": Group("Many at once", bursts.ROWS),
    "interpreter": Group("Code interpreter", interpreter.ROWS),
    "kernels": Group("Kernels and magics", kernels.ROWS),
    "proxies": Group("Proxy of ports", proxies.ROWS),
    "contents": Group("Files in Jupyter", contents.ROWS),
    "browser": Group("In the browser", browser.ROWS),
    "loopback": Group(
        "Sockets without namespaces", loopback.ROWS, engine=loopback.engine_without_namespaces
    ),
    "density": Group("Density", density.ROWS, options=(most_sandboxes(density.MANY + 200),)),
}
DEFAULT: Final = tuple(name for name, group in GROUPS.items() if group.is_default)
ROWS: Final = tuple(row for group in GROUPS.values() for row in group.rows)
