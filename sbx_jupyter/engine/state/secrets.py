"""Secrets: write-only values for header rules, encrypted at rest (interface 1.7).

The key is beside the store with mode 0600. Encryption protects a copy of the store without the
key; a process that can read the whole data directory can read the secrets.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography.fernet import Fernet

from sbx_jupyter.engine.owners import caller, may_use
from sbx_jupyter.engine.state.keys import SECRETS_KEY, load_or_make_key
from sbx_jupyter.engine.state.rows import SecretRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from sbx_jupyter.protocol.access import random_id

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.protocol.secrets import NewSecret, Secret, SecretUpdate

MAX_SECRETS: Final = 1000
MAX_VALUE_SIZE: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_MAX_ENTRIES: Final = 32
_MAX_KEY: Final = 128
_MAX_ENTRY: Final = 1024
_MAX_METADATA: Final = 8192


class Secrets:
    """The secrets of one data directory."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store = store
        self._changing = asyncio.Lock()
        """Held from reading secrets until a change is stored, as in between names look free."""
        self._cipher = Fernet(load_or_make_key(data_dir / SECRETS_KEY, Fernet.generate_key))

    async def create(self, request: NewSecret) -> Secret:
        """Store a new secret.

        Raises ``InvalidArgumentError`` for a bad name, value or metadata, ``AlreadyExistsError``
        for a name in use or when there are ``MAX_SECRETS``.
        """
        name = request.name.lower()
        if not _NAME.match(name):
            raise InvalidArgumentError(
                "name must have 1 to 128 letters, digits, underscores or dashes"
            )
        async with self._changing:
            return await self._create(name, request)

    async def _create(self, name: str, request: NewSecret) -> Secret:
        owner = caller().owner
        if self._by_name(name, owner) is not None:
            raise AlreadyExistsError(f"Secret with name '{name}' already exists")
        if len(self._store.secrets) >= MAX_SECRETS:
            raise AlreadyExistsError(f"the limit of {MAX_SECRETS} secrets is reached")
        row = SecretRow(
            secret_id="sec_" + random_id(20),
            name=name,
            owner=owner,
            version=1,
            value=self._encrypt(request.value),
            metadata=_checked_metadata(request.metadata or {}),
            created_at=(created := now()),
            updated_at=created,
        )
        await self._store.commit(Batch().put(row))
        return row.to_secret()

    def list(self) -> list[Secret]:
        """All secrets that the caller may use, newest first."""
        usable = (row for row in self._store.secrets if may_use(row.owner))
        rows = sorted(usable, key=lambda row: row.created_at, reverse=True)
        return [row.to_secret() for row in rows]

    def get(self, id_or_name: str) -> Secret:
        """One secret without its value; raises ``NotFoundError``."""
        return self._row(id_or_name).to_secret()

    async def update(self, id_or_name: str, request: SecretUpdate) -> Secret:
        """Give a secret a new value, and new metadata if the request has any.

        Raises ``NotFoundError`` and ``InvalidArgumentError``.
        """
        async with self._changing:
            return await self._update(id_or_name, request)

    async def _update(self, id_or_name: str, request: SecretUpdate) -> Secret:
        row = self._row(id_or_name)
        metadata = row.metadata
        if request.metadata is not None:
            metadata = _checked_metadata(request.metadata)
        row = msgspec.structs.replace(
            row,
            version=row.version + 1,
            value=self._encrypt(request.value),
            metadata=metadata,
            updated_at=now(),
        )
        await self._store.commit(Batch().put(row))
        return row.to_secret()

    async def remove(self, id_or_name: str) -> None:
        """Remove a secret; raises ``NotFoundError``."""
        async with self._changing:
            row = self._row(id_or_name)
            await self._store.commit(Batch().remove(SecretRow, row.secret_id))

    def reveal(self, name: str, owner: str = "") -> str | None:
        """The value of a secret of ``owner``, for the egress proxy only; ``None`` if unknown."""
        row = self._by_name(name, owner)
        return None if row is None else self._cipher.decrypt(row.value).decode()

    def _encrypt(self, value: str) -> bytes:
        if not value or len(value.encode()) > MAX_VALUE_SIZE:
            raise InvalidArgumentError(f"value must have 1 to {MAX_VALUE_SIZE} bytes")
        return self._cipher.encrypt(value.encode())

    def _row(self, id_or_name: str) -> SecretRow:
        row = self._find(id_or_name)
        if row is None:
            raise NotFoundError(f"Secret '{id_or_name}' not found")
        return row

    def _find(self, id_or_name: str) -> SecretRow | None:
        row = self._store.secrets.get(id_or_name)
        if row is not None and may_use(row.owner):
            return row
        return self._by_name(id_or_name, caller().owner)

    def _by_name(self, name: str, owner: str) -> SecretRow | None:
        name, rows = name.lower(), self._store.secrets
        return next((row for row in rows if row.name == name and row.owner == owner), None)


def _checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(metadata) > _MAX_ENTRIES:
        raise InvalidArgumentError(f"metadata may have at most {_MAX_ENTRIES} entries")
    for key, value in metadata.items():
        if len(key.encode()) > _MAX_KEY or _size(value) > _MAX_ENTRY:
            raise InvalidArgumentError(f"metadata entry '{key[:40]}' is too long")
    if sum(len(key.encode()) + _size(value) for key, value in metadata.items()) > _MAX_METADATA:
        raise InvalidArgumentError(f"metadata may have at most {_MAX_METADATA} bytes")
    return metadata


def _size(value: Any) -> int:
    """The bytes of a value of metadata: of the text itself, or of the JSON of anything else."""
    return len(value.encode() if isinstance(value, str) else msgspec.json.encode(value))
