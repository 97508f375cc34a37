"""Routes that make, find and remove volumes (interface 1.6.1)."""

from __future__ import annotations

from sbx_jupyter.protocol.volumes import NewVolume, Volume, VolumeAndToken
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler


class VolumesHandler(PlatformHandler):
    """``/volumes``."""

    @operation("List volumes (V1)", answers={200: list[Volume]}, errors=COMMON_ERRORS)
    async def get(self) -> None:
        self.answer(self.service.engine.attachments.volumes.list())

    @operation(
        "Make a volume (V1)", body=NewVolume, answers={201: VolumeAndToken}, errors=COMMON_ERRORS
    )
    async def post(self) -> None:
        request = self.read_body(NewVolume)
        self.answer(await self.service.engine.attachments.volumes.create(request.name), 201)


class VolumeHandler(PlatformHandler):
    """``/volumes/{volumeID}``."""

    @operation(
        "Get a volume and a fresh token (V2)", answers={200: VolumeAndToken}, errors=COMMON_ERRORS
    )
    async def get(self, volume_id: str) -> None:
        self.answer(self.service.engine.attachments.volumes.get(volume_id))

    @operation("Remove a volume (V2)", answers={204: None}, errors=COMMON_ERRORS)
    async def delete(self, volume_id: str) -> None:
        await self.service.engine.attachments.volumes.remove(volume_id)
        self.answer(status=204)
