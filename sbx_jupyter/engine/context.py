"""What the components of an engine share: configuration, hooks, store, slots and tasks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.logs import Journal
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.isolation.fence import Limits
from sbx_jupyter.protocol.platform import VolumeMount

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.expiry import Expiry
    from sbx_jupyter.engine.sandboxes.long_operations import Operations
    from sbx_jupyter.engine.sandboxes.placement import Placement
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.history import History
    from sbx_jupyter.engine.state.store import Batch, Store
    from sbx_jupyter.engine.storage.layers import Layers
    from sbx_jupyter.engine.watch.meters import Meters

_log = logging.getLogger("sbx_jupyter.engine")

DEFAULT_LIMITS: Final = Limits(
    memory_mb=1024, cpu_count=2, processes=1024, disk_mb=10240, open_files=65536
)

StartedHook = Callable[[SandboxRow, "Sandbox"], Awaitable[None]]
"""Called when a sandbox has new processes or was adopted, before it is given out."""

ChangedHook = Callable[[SandboxRow, "Sandbox"], Awaitable[None]]
StoppedHook = Callable[[str], Awaitable[None]]
MountLookup = Callable[[Sequence[VolumeMount]], tuple[tuple[Path, str], ...]]
"""Directory and mount point of each mount; raises ``InvalidArgumentError`` for bad ones."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine is set up; every default works."""

    data_dir: Path
    isolation: str = "auto"
    pool_size: int = 4
    max_sandboxes: int = 100
    max_timeout: int = 86400
    default_limits: Limits = DEFAULT_LIMITS
    warm_interpreter: bool = True
    """Whether code interpreters are started ahead, where the template is that of the interpreter;
    each takes 60 MB."""
    metrics_interval: float = 5.0
    domain: str | None = None
    network: str = "proxy"
    """How sandboxes reach the outside: ``"proxy"``, or ``"full"`` for TCP and UDP as well."""
    egress_exceptions: tuple[str, ...] = ()
    """Networks that sandboxes may reach although they are not public, such as a package mirror."""
    max_builds: int = 20
    """Template builds that run or wait for their turn."""
    parallel_builds: int = 2
    build_step_timeout: float = 3600.0
    """Seconds that one step of a build may take."""
    max_cached_steps: int = 500
    max_step_cache_bytes: int = 20 * 1024**3
    """What the layers of build steps may take that only the cache keeps."""


@dataclass(slots=True)
class Hooks:
    """Where other parts of the engine take part in the life of sandboxes."""

    started: list[StartedHook] = field(default_factory=list[StartedHook])
    network_changed: list[ChangedHook] = field(default_factory=list[ChangedHook])
    paused: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when a sandbox stands still with its memory kept."""
    resumed: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when it goes on; also when a pause failed."""
    stopped: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when a sandbox has no processes any more; repeated calls must do no harm."""
    mounts: MountLookup | None = None
    envs: dict[str, str] = field(default_factory=dict[str, str])
    """Environment of every process in every sandbox, below what the sandbox's own says."""


@dataclass(slots=True)
class Context:
    """The state of one engine."""

    config: EngineConfig
    data_dir: DataDir
    store: Store
    slots: Slots
    placement: Placement
    expiry: Expiry
    history: History
    boot_id: str
    layers: Layers
    meters: Meters
    operations: Operations
    journal: Journal = field(default_factory=Journal)
    hooks: Hooks = field(default_factory=Hooks)
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Work that outlives the call that began it; awaited when the engine stops."""

    death_tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Those that wait for the death of a sandbox; they end when it ends or is let go."""

    def envs_of(self, row: SandboxRow) -> dict[str, str]:
        """The environment of every process in a sandbox (interface 3.3)."""
        return {**self.hooks.envs, **row.global_envs()}

    async def commit(self, batch: Batch) -> None:
        """Make changes durable, and the log entries among them visible."""
        await self.store.commit(batch)
        for row in batch.logs:
            self.journal.add(row)
            _log.log(
                logging.getLevelNamesMapping().get(row.level.upper(), logging.INFO),
                row.message,
                extra={"sandbox_id": row.sandbox_id, "fields": row.fields},
            )
