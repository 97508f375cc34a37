"""Makes the components of an engine and connects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sbx_jupyter.agent.procfs import boot_id
from sbx_jupyter.engine.context import Context, EngineConfig, Hooks
from sbx_jupyter.engine.sandboxes.creation import Creation
from sbx_jupyter.engine.sandboxes.expiry import Expiry
from sbx_jupyter.engine.sandboxes.long_operations import Operations
from sbx_jupyter.engine.sandboxes.observations import Observations
from sbx_jupyter.engine.sandboxes.placement import LocalPlacement
from sbx_jupyter.engine.sandboxes.pool import Pool
from sbx_jupyter.engine.sandboxes.removal import Removal
from sbx_jupyter.engine.sandboxes.service import Sandboxes
from sbx_jupyter.engine.sandboxes.slots import Slots
from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
from sbx_jupyter.engine.state.history import History
from sbx_jupyter.engine.storage.capture import Capture
from sbx_jupyter.engine.storage.disk_report import DiskReporter
from sbx_jupyter.engine.storage.flatten import Flattener
from sbx_jupyter.engine.storage.forks import Forks
from sbx_jupyter.engine.storage.layers import Layers
from sbx_jupyter.engine.storage.prune import Pruner
from sbx_jupyter.engine.storage.sandbox_diff import Diffs
from sbx_jupyter.engine.storage.snapshots import Snapshots
from sbx_jupyter.engine.storage.storage_services import Storage
from sbx_jupyter.engine.templates.catalogue import Catalogue
from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
from sbx_jupyter.engine.watch.sampling import Sampler
from sbx_jupyter.engine.watch.watchdog import Watchdog
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import Tier

if TYPE_CHECKING:
    from sbx_jupyter.engine.attachments import Attachments
    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.manifests import Manifests
    from sbx_jupyter.engine.state.quarantine import Quarantine
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.templates.template_services import Templates
    from sbx_jupyter.engine.watch.meters import Meters
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence


class Kept(NamedTuple):
    """What an engine keeps on the disk, opened and checked."""

    data_dir: DataDir
    store: Store
    manifests: Manifests
    quarantine: Quarantine


@dataclass(slots=True)
class Components:
    """The components of a running engine."""

    context: Context
    catalogue: Catalogue
    supervisor: Supervisor
    removal: Removal
    pool: Pool
    flattener: Flattener
    sampler: Sampler
    watchdog: Watchdog
    sandboxes: Sandboxes
    observations: Observations
    snapshots: Snapshots
    forks: Forks
    storage: Storage
    fence: AnyFence
    attachments: Attachments = field(init=False)
    """Set while the engine starts, like ``templates``: opening them needs the event loop."""

    templates: Templates = field(init=False)


def assemble(
    config: EngineConfig,
    hooks: Hooks,
    meters: Meters,
    kept: Kept,
    fence: AnyFence,
    tier: str,
    *,
    shares_blocks: bool,
) -> Components:
    """Make the components and connect them; none of them runs yet.

    ``shares_blocks``: whether files of the data directory can share their content.
    """
    expiry = Expiry(lambda sandbox_id: supervisor.on_expired(sandbox_id))
    context = _make_context(config, hooks, meters, kept, fence, tier, expiry)
    removal = Removal(context)
    supervisor = Supervisor(context, removal)
    catalogue = Catalogue(context.store, context.layers, context.cleaning)
    flattener = Flattener(context)
    pool = Pool(context.placement, config.default_limits, config.pool_size, hooks.prepared)
    creation = Creation(
        context,
        catalogue,
        supervisor,
        removal,
        pool,
        # A helper takes no directories of the machine from the engine that it serves.
        shows_directories=tier == Tier.NAMESPACES and isinstance(fence, Fence),
    )
    capture = Capture(context, flattener, supervisor, shares_blocks=shares_blocks)
    return Components(
        context=context,
        catalogue=catalogue,
        supervisor=supervisor,
        removal=removal,
        pool=pool,
        flattener=flattener,
        sampler=Sampler(context, creation.uses),
        watchdog=Watchdog(context, fence),
        sandboxes=Sandboxes(context, catalogue, supervisor, removal, creation, pool),
        observations=Observations(context.slots, pool, context.history, context.journal),
        snapshots=Snapshots(context, flattener, capture, catalogue),
        forks=Forks(context, flattener, capture, creation),
        storage=Storage(
            DiskReporter(context, fence),
            Pruner(context, fence),
            Diffs(context, catalogue, fence),
        ),
        fence=fence,
    )


def _make_context(
    config: EngineConfig,
    hooks: Hooks,
    meters: Meters,
    kept: Kept,
    fence: AnyFence,
    tier: str,
    expiry: Expiry,
) -> Context:
    data_dir, store, manifests, quarantine = kept
    removals = UnfinishedRemovals()
    return Context(
        config=config,
        data_dir=data_dir,
        store=store,
        slots=Slots(config.max_sandboxes),
        placement=LocalPlacement(data_dir, fence, manifests, removals),
        expiry=expiry,
        history=History(data_dir.history),
        boot_id=boot_id(),
        layers=Layers(
            data_dir, store, fence, manifests, removals, are_whole=tier != Tier.NAMESPACES
        ),
        meters=meters,
        operations=Operations(),
        hooks=hooks,
        quarantine=quarantine,
        removals=removals,
    )
