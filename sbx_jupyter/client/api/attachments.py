"""The calls of the platform API for volumes and secrets (interface 1.6 and 1.7)."""

from __future__ import annotations

from sbx_jupyter.client.api.platform import PlatformClient, decoded, segment
from sbx_jupyter.protocol import secrets, volumes


class AttachmentsClient(PlatformClient):
    """Adds the calls for volumes and secrets to ``PlatformClient``."""

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
