"""Keys of owners on a shared engine: an addition to the platform API."""

from __future__ import annotations

import datetime as dt

import msgspec


class NewOwnerKey(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The body of ``POST /engine/keys``."""

    owner: str
    sees_all: bool = False
    """Whether the key may use what others own too."""


class OwnerKey(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A key, without itself."""

    key_id: str = msgspec.field(name="keyID")
    owner: str
    sees_all: bool
    created_at: dt.datetime


class MadeOwnerKey(OwnerKey, kw_only=True, frozen=True, rename="camel"):
    """A new key; the engine shows it this once."""

    key: str

    def __repr__(self) -> str:
        return f"MadeOwnerKey(key_id={self.key_id!r}, owner={self.owner!r})"


class SessionKeyFile(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The content of the file that names the key of a session.

    Whoever can write the file can read the engine's own key too, so the engine believes it.
    """

    pid: int
    owner: str = ""
    """Owner of the things that the key may use; empty for everything, as the engine's own key."""
    sees_all: bool = False
    """Whether it may use what others own too."""
