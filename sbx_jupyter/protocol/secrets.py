"""The records of secrets (interface 1.7)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
from msgspec import field

from sbx_jupyter.protocol.platform import Record


class NewSecret(Record, frozen=True):
    name: str
    value: str
    metadata: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"NewSecret(name={self.name!r})"


class SecretUpdate(Record, frozen=True):
    value: str
    metadata: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "SecretUpdate()"


class Secret(msgspec.Struct, kw_only=True, frozen=True):
    secret_id: str = field(name="secretID")
    name: str
    current_version: int = field(name="currentVersion")
    metadata: dict[str, Any]
    created_at: dt.datetime = field(name="createdAt")
    updated_at: dt.datetime = field(name="updatedAt")
