"""What hangs on sandboxes without being one: volumes, secrets and their way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.engine import logs
from sbx_jupyter.engine.egress.control import PROXY_ENVS, EgressControl
from sbx_jupyter.engine.secrets import Secrets
from sbx_jupyter.engine.store import Batch
from sbx_jupyter.engine.volumes.volumes import Volumes

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context


@dataclass(frozen=True, slots=True)
class Attachments:
    """The volumes, secrets and egress proxies of one engine."""

    volumes: Volumes
    secrets: Secrets
    egress: EgressControl

    @classmethod
    async def open(cls, context: Context, *, real_ids: bool, own_network: bool) -> Attachments:
        """Take part in the life of the sandboxes of an engine that starts.

        Without a network of their own, sandboxes have no use for a proxy: they have the machine's
        network, or none, as the report of the isolation says.
        """
        store, folder = context.store, context.data_dir.path
        volumes = Volumes(store, folder, real_ids=real_ids)
        await volumes.recover()
        secrets = Secrets(store, folder)

        def log_refusal(sandbox_id: str, target: str, reason: str) -> None:
            entry = logs.entry(sandbox_id, "warn", f"Egress refused: {reason}", target=target[:300])
            context.tasks.spawn(context.commit(Batch().log(entry)), "sbx-egress-log")

        egress = EgressControl(
            folder,
            exceptions=context.config.egress_exceptions,
            secret=secrets.reveal,
            log=log_refusal,
        )
        hooks = context.hooks
        hooks.mounts = volumes.mounts
        if own_network:
            hooks.envs.update(PROXY_ENVS)
            hooks.started.append(egress.started)
            hooks.network_changed.append(egress.changed)
            hooks.stopped.append(egress.stopped)
        return cls(volumes, secrets, egress)

    async def aclose(self) -> None:
        """Close the ways out and finish what runs."""
        await self.egress.aclose()
        await self.volumes.aclose()
