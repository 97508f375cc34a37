"""The calls of the platform API for what sandboxes are made from and hold.

Volumes and secrets are in the interface (1.6 and 1.7); processes, ports and details are additions.
"""

from __future__ import annotations

from typing import Any

from sbx_jupyter.client.api.platform import DISK_TIMEOUT, PlatformClient, decoded, segment
from sbx_jupyter.protocol import catalogue, processes, secrets, volumes


class AttachmentsClient(PlatformClient):
    """Adds the calls for volumes, secrets and processes to ``PlatformClient``."""

    async def processes(self, sandbox_id: str) -> list[processes.SandboxProcess]:
        """All processes of a running sandbox; only the engine of sbx-jupyter has this route."""
        path = f"/engine/sandboxes/{segment(sandbox_id)}/processes"
        return decoded(await self._send("GET", path), list[processes.SandboxProcess])

    async def ports(self, sandbox_id: str) -> list[processes.ListeningPort]:
        """The ports on which programs listen; only the engine of sbx-jupyter has this route."""
        path = f"/engine/sandboxes/{segment(sandbox_id)}/ports"
        return decoded(await self._send("GET", path), list[processes.ListeningPort])

    async def template(self, reference: str) -> dict[str, Any]:
        """Describe a template with its newest builds (T15); raises ``NotFoundError``."""
        return decoded(await self._send("GET", f"/templates/{segment(reference)}"), dict[str, Any])

    async def template_details(self, *, sizes: bool = False) -> list[catalogue.TemplateDetail]:
        """Describe templates and snapshots; only the engine of sbx-jupyter has this route."""
        response = await self._send(
            "GET",
            "/engine/templates",
            params={"sizes": "true"} if sizes else None,
            timeout=DISK_TIMEOUT,
        )
        return decoded(response, list[catalogue.TemplateDetail])

    async def rename_template(self, reference: str, name: str) -> catalogue.TemplateDetail:
        """Rename a template or snapshot; only the engine of sbx-jupyter has this route."""
        path = f"/engine/templates/{segment(reference)}"
        body = catalogue.TemplateRename(name=name)
        return decoded(await self._send("PATCH", path, body=body), catalogue.TemplateDetail)

    async def volume_details(self, *, sizes: bool = False) -> list[catalogue.VolumeDetail]:
        """Describe the volumes; only the engine of sbx-jupyter has this route."""
        response = await self._send(
            "GET",
            "/engine/volumes",
            params={"sizes": "true"} if sizes else None,
            timeout=DISK_TIMEOUT,
        )
        return decoded(response, list[catalogue.VolumeDetail])

    async def volume(self, volume_id: str) -> volumes.VolumeAndToken:
        """A volume with a fresh token for its content; raises ``NotFoundError``."""
        path = f"/volumes/{segment(volume_id)}"
        return decoded(await self._send("GET", path), volumes.VolumeAndToken)

    async def volumes(self) -> list[volumes.Volume]:
        """List the volumes, oldest first."""
        return decoded(await self._send("GET", "/volumes"), list[volumes.Volume])

    async def create_volume(self, name: str) -> volumes.VolumeAndToken:
        """Make a volume; raises ``InvalidArgumentError`` for a bad name or one in use."""
        body = volumes.NewVolume(name=name)
        response = await self._send("POST", "/volumes", body=body)
        return decoded(response, volumes.VolumeAndToken)

    async def remove_volume(self, volume_id: str) -> bool:
        """Remove a volume with its files; false when there is no such volume."""
        return await self._done("DELETE", f"/volumes/{segment(volume_id)}")

    async def secrets(self) -> list[secrets.Secret]:
        """List the secrets without their values, newest first."""
        found: list[secrets.Secret] = []
        async for response in self._pages("/secrets", {"limit": "100"}):
            found += decoded(response, list[secrets.Secret])
        return found

    async def create_secret(self, name: str, value: str) -> secrets.Secret:
        """Store a secret; raises ``AbortedError`` for a name in use."""
        body = secrets.NewSecret(name=name, value=value)
        return decoded(await self._send("POST", "/secrets", body=body), secrets.Secret)

    async def update_secret(self, name: str, value: str) -> secrets.Secret:
        """Give a secret a new value; raises ``NotFoundError``."""
        body = secrets.SecretUpdate(value=value)
        path = f"/secrets/{segment(name)}"
        return decoded(await self._send("POST", path, body=body), secrets.Secret)

    async def remove_secret(self, name: str) -> bool:
        """Remove a secret; false when there is no such secret."""
        return await self._done("DELETE", f"/secrets/{segment(name)}")
