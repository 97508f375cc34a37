"""The volumes, secrets, egress proxies and warm interpreters that sandboxes use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.control import EgressControl, proxy_envs
from sbx_jupyter.engine.live.warming import InterpreterWarmer, rehearse
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.secrets import Secrets
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.volumes.subordinate import SubordinateVolumes
from sbx_jupyter.engine.volumes.volumes import Volumes
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.kernel.users import SUBORDINATE, VIRTUAL
from sbx_jupyter.isolation.tiers import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.privileged.remote_trees import AnyTrees


_NONE: Final = "none"
_HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Attachments:
    """The volumes, secrets, egress proxies and warm interpreters of one engine."""

    volumes: Volumes
    secrets: Secrets
    egress: EgressControl
    warmer: InterpreterWarmer

    @classmethod
    async def open(
        cls, context: Context, fence: AnyFence, *, users: str, network: str
    ) -> Attachments:
        """Make all four and register their hooks with a starting engine.

        ``users`` is that of the engine's ``IsolationReport``.

        A proxy can filter only the network of a sandbox that has one of its own. Otherwise it
        uses the machine's network or none (``network_of``), and its log gets an entry that says
        which.
        """
        volumes = await _open_volumes(context, fence, users)
        secrets = Secrets(context.store, context.data_dir.path)
        egress = _open_egress(context, fence, secrets)
        hooks = context.hooks
        hooks.mounts = volumes.mounts
        hooks.volume_directories = volumes.directories
        if network in (_NONE, _HOST):
            _log_missing_network(context, network)
        else:
            _connect(context, egress)
        hooks.prepared.append(rehearse)
        warmer = InterpreterWarmer(context.slots)
        if context.config.warm_interpreter:
            hooks.started.append(warmer.started)
        return cls(volumes, secrets, egress, warmer)

    async def aclose(self) -> None:
        """Close the proxies and wait for work in progress."""
        await self.warmer.aclose()
        await self.egress.aclose()
        await self.volumes.aclose()


async def _open_volumes(context: Context, fence: AnyFence, users: str) -> Volumes:
    store, folder, quotas = context.store, context.data_dir.path, context.config.quotas
    stored: AnyTrees | SubordinateVolumes = fence.stored
    if users == SUBORDINATE and isinstance(fence, Fence):
        stored = SubordinateVolumes(folder, fence.stored, fence.tree_operations)
    volumes = Volumes(
        store,
        folder,
        stored,
        real_ids=users != VIRTUAL,
        size=context.config.volume_size_mb << 20,
        check_quota=lambda owner: quotas.check_volume(owner, context.slots, store.volumes),
        removals=context.removals,
    )
    await volumes.recover()
    return volumes


def _open_egress(context: Context, fence: AnyFence, secrets: Secrets) -> EgressControl:
    def log(sandbox_id: str, level: logs.Level, message: str, fields: Mapping[str, str]) -> None:
        entry = logs.entry(sandbox_id, level, message, **fields)
        context.tasks.spawn(context.commit(Batch().log(entry)), "sbx-egress-log")

    def decided(sandbox_id: str, target: str, refused: str | None) -> None:
        context.meters.egress("allowed" if refused is None else "refused")
        for hook in context.hooks.egress:
            hook(sandbox_id, target, refused)

    return EgressControl(
        context.data_dir.path,
        exceptions=context.config.egress_exceptions,
        secret=secrets.reveal,
        log=log,
        connections=fence.connections,
        full=context.config.network == "full",
        on_decision=decided,
    )


def _connect(context: Context, egress: EgressControl) -> None:
    """Give each sandbox its proxy, and change the proxy when the sandbox changes."""

    async def begin(row: SandboxRow, sandbox: Sandbox) -> None:
        # A build has network access through the proxy only, because its files become part of the
        # template.
        is_build = context.slots.get(row.sandbox_id) is None
        await egress.started(row, sandbox, proxy_only=is_build)

    hooks = context.hooks
    hooks.envs = proxy_envs
    hooks.prepared.append(egress.prepare)
    hooks.started.append(begin)
    hooks.network_changed.append(egress.changed)
    hooks.paused.append(egress.paused)
    hooks.resumed.append(egress.resumed)
    hooks.stopped.append(egress.stopped)


def _log_missing_network(context: Context, network: str) -> None:
    """Log for each started sandbox that it has no network of its own to filter."""

    async def say_without(row: SandboxRow, sandbox: Sandbox) -> None:
        level, message = _without_network(network, row)
        await context.commit(Batch().log(logs.entry(row.sandbox_id, level, message)))

    context.hooks.started.append(say_without)
    context.hooks.network_changed.append(say_without)


def network_of(tier: str, configured: str, *, loopback: bool) -> str:
    """The network of sandboxes: ``proxy``, ``full``, ``none``, or ``host`` for the machine's.

    ``loopback`` says whether the keepers of the Landlock tier give one, which has a proxy.
    """
    if tier == Tier.NAMESPACES:
        return configured
    if tier == Tier.LANDLOCK:
        return "proxy" if loopback else _NONE
    return _HOST


def _without_network(network: str, row: SandboxRow) -> tuple[logs.Level, str]:
    """The level and text of the log entry for a sandbox without a network of its own."""
    if network == _NONE:
        return "info", "The sandbox has no network: Landlock gives it no sockets"
    if row.network is None and row.allow_internet_access is not False:
        return "warn", "The sandbox has the network of the machine"
    return "warn", "The sandbox has the network of the machine: its network rules hold nothing"
