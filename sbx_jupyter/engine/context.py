"""The state that the components of an engine share: configuration, hooks, store, slots, tasks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.quotas import Quotas
from sbx_jupyter.engine.state.logs import Journal
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.isolation.fence_spec import Limits
from sbx_jupyter.isolation.ids.blocks import CONTAINER_IDS, IdRange
from sbx_jupyter.protocol.platform import VolumeMount

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.expiry import Expiry
    from sbx_jupyter.engine.sandboxes.long_operations import Operations
    from sbx_jupyter.engine.sandboxes.placement import Placement
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.history import History
    from sbx_jupyter.engine.state.quarantine import Quarantine
    from sbx_jupyter.engine.state.store import Batch, Store
    from sbx_jupyter.engine.storage.layers import Layers
    from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
    from sbx_jupyter.engine.watch.meters import Meters

_log = logging.getLogger("sbx_jupyter.engine")

DEFAULT_LIMITS: Final = Limits(
    memory_mb=1024, cpu_count=2, processes=1024, disk_mb=10240, open_files=65536
)

StartedHook = Callable[[SandboxRow, "Sandbox"], Awaitable[None]]
"""Called when a sandbox has new processes or was adopted, before clients can use it."""

PreparedHook = Callable[["Sandbox"], Awaitable[None]]
"""Called when a sandbox was started for the pool, before it is known who will get it."""

ChangedHook = Callable[[SandboxRow, "Sandbox"], Awaitable[None]]
EgressHook = Callable[[str, str, str | None], None]
"""Gets the sandbox's id, the target, and why it was refused; ``None`` if it was opened."""

StoppedHook = Callable[[str], Awaitable[None]]
MountLookup = Callable[[Sequence[VolumeMount], str], tuple[tuple[Path, str], ...]]
"""Gives the directory and the mount point of each mount of a sandbox's owner.

Raises ``InvalidArgumentError``.
"""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The settings of an engine; only ``data_dir`` has no default.

    Timeouts and intervals are in seconds.
    """

    data_dir: Path
    isolation: str = "auto"
    pool_size: int = 4
    max_sandboxes: int = 100
    max_timeout: int = 86400
    default_limits: Limits = DEFAULT_LIMITS
    cpu_weight: int = 100
    """Weight of all sandboxes together against other control groups, in the unit of version 2."""
    volume_size_mb: int = 10240
    """Size limit of a volume; 0 means no limit."""
    warm_interpreter: bool = True
    """Whether sandboxes of the code interpreter's template start an interpreter before the first
    request for one; each takes 60 MB."""
    metrics_interval: float = 5.0
    domain: str | None = None
    network: str = "proxy"
    """``"proxy"`` for network access by proxy only, ``"full"`` for TCP and UDP as well."""
    host_ids: IdRange = CONTAINER_IDS
    """The ids of which an engine of root gives each sandbox a block."""
    egress_exceptions: tuple[str, ...] = ()
    """Non-public networks that sandboxes may reach, for example that of a package mirror."""
    max_builds: int = 20
    """The most template builds that may run or wait in the queue."""
    parallel_builds: int = 2
    build_step_timeout: float = 3600.0
    """Seconds that one step of a build may take."""
    max_cached_steps: int = 500
    quotas: Quotas = field(default_factory=Quotas)
    """The quotas of owners."""
    max_step_cache_bytes: int = 20 * 1024**3
    """The most disk space for layers of build steps that are kept for the cache only."""


@dataclass(slots=True)
class Hooks:
    """Callbacks by which other parts of the engine react to changes of sandboxes."""

    prepared: list[PreparedHook] = field(default_factory=list[PreparedHook])
    started: list[StartedHook] = field(default_factory=list[StartedHook])
    network_changed: list[ChangedHook] = field(default_factory=list[ChangedHook])
    paused: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when a sandbox was frozen with its memory kept."""
    resumed: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when it was thawed, also after a pause that failed."""
    stopped: list[StoppedHook] = field(default_factory=list[StoppedHook])
    """Called when a sandbox has no processes any more; hooks must accept repeated calls."""
    egress: list[EgressHook] = field(default_factory=list[EgressHook])
    """Called for each connection that a sandbox's proxy opened or refused."""
    mounts: MountLookup | None = None
    can_mount: bool = True
    """Whether new sandboxes may have volumes: they need a root file system of their own."""
    volume_directories: Callable[[Sequence[VolumeMount], str], list[Path]] | None = None
    """Gives the directories of the mounts of an owner whose volumes exist."""
    envs: Callable[[str], dict[str, str]] = lambda sandbox_id: {}
    """The environment of every process in the sandbox of an id, whose own values override it."""


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
    quarantine: Quarantine
    removals: UnfinishedRemovals
    journal: Journal = field(default_factory=Journal)
    hooks: Hooks = field(default_factory=Hooks)
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Work that may go on after the call that began it; awaited when the engine stops."""

    cleaning: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Removals of files that nothing refers to any more; the next engine does what is left."""

    death_tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Tasks that wait for the death of a sandbox; they end with it, or when it is detached."""

    def envs_of(self, row: SandboxRow) -> dict[str, str]:
        """The environment of every process in a sandbox (interface 3.3)."""
        return {**self.hooks.envs(row.sandbox_id), **row.global_envs()}

    async def commit(self, batch: Batch) -> None:
        """Commit changes to the store, then add their log entries to the journal and the log.

        Raises what ``Store.commit`` raises.
        """
        await self.store.commit(batch)
        for row in batch.logs:
            self.journal.add(row)
            _log.log(
                logging.getLevelNamesMapping().get(row.level.upper(), logging.INFO),
                row.message,
                extra={"sandbox_id": row.sandbox_id, "fields": row.fields},
            )
