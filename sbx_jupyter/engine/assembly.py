"""How the parts of a running engine are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sbx_jupyter.engine.context import Context, EngineConfig, Hooks
from sbx_jupyter.engine.sandboxes.creation import Creation
from sbx_jupyter.engine.sandboxes.expiry import Expiry
from sbx_jupyter.engine.sandboxes.placement import LocalPlacement
from sbx_jupyter.engine.sandboxes.pool import Pool
from sbx_jupyter.engine.sandboxes.slots import Slots
from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
from sbx_jupyter.engine.sandboxes.wake import Gate
from sbx_jupyter.engine.state.datadir import DataDir, boot_id
from sbx_jupyter.engine.state.history import History
from sbx_jupyter.engine.storage.capture import Capture
from sbx_jupyter.engine.storage.diff.sandbox_diff import Diffs
from sbx_jupyter.engine.storage.disk import Disk
from sbx_jupyter.engine.storage.forks import Forks
from sbx_jupyter.engine.storage.layers import Layers
from sbx_jupyter.engine.storage.prune import Prune
from sbx_jupyter.engine.storage.snapshots import Snapshots
from sbx_jupyter.engine.templates.catalog import Catalog
from sbx_jupyter.engine.watch.sampling import Sampler
from sbx_jupyter.engine.watch.watchdog import Watchdog

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.watch.meters import Meters
    from sbx_jupyter.isolation.fence import Fence


class Parts(NamedTuple):
    """What exists while an engine runs."""

    context: Context
    catalog: Catalog
    supervisor: Supervisor
    creation: Creation
    gate: Gate
    pool: Pool
    sampler: Sampler
    watchdog: Watchdog
    layers: Layers
    snapshots: Snapshots
    forks: Forks
    diffs: Diffs
    disk: Disk
    prune: Prune
    fence: Fence


def assemble(
    config: EngineConfig,
    hooks: Hooks,
    meters: Meters,
    data_dir: DataDir,
    store: Store,
    fence: Fence,
) -> Parts:
    """Make the parts; nothing runs yet."""
    layers = Layers(data_dir, store, fence)
    placement = LocalPlacement(data_dir, fence)
    context = Context(
        config=config,
        data_dir=data_dir,
        store=store,
        slots=Slots(config.max_sandboxes),
        placement=placement,
        expiry=Expiry(lambda sandbox_id: supervisor.on_expired(sandbox_id)),
        history=History(data_dir.history),
        boot_id=boot_id(),
        layers=layers,
        hooks=hooks,
        meters=meters,
    )
    supervisor = Supervisor(context)
    catalog = Catalog(store, layers)
    pool = Pool(placement, config.default_limits, config.pool_size)
    creation = Creation(context, catalog, supervisor, pool)
    capture = Capture(context, supervisor)
    return Parts(
        context=context,
        catalog=catalog,
        supervisor=supervisor,
        creation=creation,
        gate=Gate(context, supervisor),
        pool=pool,
        sampler=Sampler(context, creation.spawns),
        watchdog=Watchdog(context, fence),
        layers=layers,
        snapshots=Snapshots(context, capture, catalog),
        forks=Forks(context, capture, creation),
        diffs=Diffs(context, catalog, fence),
        disk=Disk(context, fence),
        prune=Prune(context),
        fence=fence,
    )
