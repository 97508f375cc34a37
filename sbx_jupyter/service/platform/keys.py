"""Keys of owners: an addition to the platform API, for operators of a shared engine."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from sbx_jupyter.protocol.owners import MadeOwnerKey, NewOwnerKey, OwnerKey
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler


class KeysHandler(PlatformHandler):
    """``/engine/keys``."""

    needs_own_key: ClassVar[bool] = True

    @operation(
        "List the keys of owners", answers={200: list[OwnerKey]}, errors=(*COMMON_ERRORS, 403)
    )
    async def get(self) -> None:
        self.answer(self.service.owner_keys.list())

    @operation(
        "Make a key for an owner",
        body=NewOwnerKey,
        answers={201: MadeOwnerKey},
        errors=(*COMMON_ERRORS, 403),
    )
    async def post(self) -> None:
        request = self.read_body(NewOwnerKey)
        async with self.service.changing_keys:
            self.answer(await asyncio.to_thread(self.service.owner_keys.create, request), 201)


class KeyHandler(PlatformHandler):
    """``/engine/keys/{keyID}``."""

    needs_own_key: ClassVar[bool] = True

    @operation("Revoke a key", answers={204: None}, errors=(*COMMON_ERRORS, 403))
    async def delete(self, key_id: str) -> None:
        async with self.service.changing_keys:
            await asyncio.to_thread(self.service.owner_keys.remove, key_id)
        self.answer(status=204)
