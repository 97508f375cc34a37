"""Keys for the users of a shared engine: each stands for the owner of what is made with it."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.owners import Caller, check_owner
from sbx_jupyter.errors import DataLossError, NotFoundError, ResourceExhaustedError
from sbx_jupyter.isolation.private_files import write_private
from sbx_jupyter.protocol.access import new_api_key, random_id
from sbx_jupyter.protocol.owners import MadeOwnerKey, NewOwnerKey, OwnerKey

if TYPE_CHECKING:
    from pathlib import Path

MAX_KEYS: Final = 10_000


class _Stored(OwnerKey, frozen=True, kw_only=True):
    digest: str
    """SHA-256 of the key: the file gives no key away."""


class OwnerKeys:
    """The keys of owners, in a file of the data directory with mode 0600."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "owner-keys.json"
        self._keys: dict[str, _Stored] = {}

    def load(self) -> None:
        """Read the file, if there is one; raises ``OSError``, ``DataLossError``."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=list[_Stored])
        except FileNotFoundError:
            return
        except msgspec.DecodeError as error:
            # Without the file no user has access; guessing could give somebody too much.
            raise DataLossError(f"{self._path} is damaged: {error}") from error
        self._keys = {each.digest: each for each in found}

    def find(self, key: str) -> Caller | None:
        """The caller that a key stands for, if it is one of these."""
        found = self._keys.get(_digest(key))
        return None if found is None else Caller(found.owner, found.sees_all)

    def list(self) -> list[OwnerKey]:
        """All keys without themselves, oldest first."""
        return [_shown(each) for each in self._keys.values()]

    def create(self, request: NewOwnerKey) -> MadeOwnerKey:
        """Make a key; blocking.

        Raises ``InvalidArgumentError`` for the owner, ``ResourceExhaustedError``, ``OSError``.
        """
        check_owner(request.owner)
        if len(self._keys) >= MAX_KEYS:
            raise ResourceExhaustedError(f"there are {MAX_KEYS} keys, the most that are kept")
        key = new_api_key()
        stored = _Stored(
            key_id=random_id(12),
            owner=request.owner,
            sees_all=request.sees_all,
            created_at=dt.datetime.now(dt.UTC),
            digest=_digest(key),
        )
        self._replace({**self._keys, stored.digest: stored})
        return MadeOwnerKey(**msgspec.structs.asdict(_shown(stored)), key=key)

    def remove(self, key_id: str) -> None:
        """Revoke a key at once; blocking. Raises ``NotFoundError``, ``OSError``."""
        kept = {digest: each for digest, each in self._keys.items() if each.key_id != key_id}
        if len(kept) == len(self._keys):
            raise NotFoundError(f"there is no key '{key_id}'")
        self._replace(kept)

    def _replace(self, keys: dict[str, _Stored]) -> None:
        write_private(self._path, msgspec.json.encode(list(keys.values())) + b"\n")
        self._keys = keys


def _shown(stored: _Stored) -> OwnerKey:
    return OwnerKey(
        key_id=stored.key_id,
        owner=stored.owner,
        sees_all=stored.sees_all,
        created_at=stored.created_at,
    )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
