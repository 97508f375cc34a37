"""Routes for secrets: write-only values for egress rules (interface 1.7)."""

from __future__ import annotations

from sbx_jupyter.engine.pages import cut
from sbx_jupyter.protocol.secrets import NewSecret, Secret, SecretUpdate
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import (
    COMMON_ERRORS,
    LIMIT,
    NEXT_TOKEN,
    PlatformHandler,
)


class SecretsHandler(PlatformHandler):
    """``/secrets``."""

    @operation(
        "List secrets in pages (X1)",
        answers={200: list[Secret]},
        errors=COMMON_ERRORS,
        query=(LIMIT, NEXT_TOKEN),
    )
    async def get(self) -> None:
        limit = self.query_int("limit", 100, minimum=1, maximum=100)
        page, token = cut(
            self.service.engine.attachments.secrets.list(),
            lambda secret: (secret.created_at, secret.secret_id),
            limit=limit,
            token=self.query_text("nextToken"),
        )
        self.answer_page(page, token)

    @operation(
        "Store a secret (X1)", body=NewSecret, answers={201: Secret}, errors=(*COMMON_ERRORS, 409)
    )
    async def post(self) -> None:
        request = self.read_body(NewSecret)
        self.answer(await self.service.engine.attachments.secrets.create(request), 201)


class SecretHandler(PlatformHandler):
    """``/secrets/{idOrName}``."""

    @operation("Get a secret (X1)", answers={200: Secret}, errors=COMMON_ERRORS)
    async def get(self, id_or_name: str) -> None:
        self.answer(self.service.engine.attachments.secrets.get(id_or_name))

    @operation(
        "Give a secret a new value (X1)",
        body=SecretUpdate,
        answers={200: Secret},
        errors=COMMON_ERRORS,
    )
    async def post(self, id_or_name: str) -> None:
        update = self.read_body(SecretUpdate)
        self.answer(await self.service.engine.attachments.secrets.update(id_or_name, update))

    @operation("Remove a secret (X1)", answers={204: None}, errors=COMMON_ERRORS)
    async def delete(self, id_or_name: str) -> None:
        await self.service.engine.attachments.secrets.remove(id_or_name)
        self.answer(status=204)
