"""Idempotency keys: a create that is sent twice makes one sandbox (interface 1.2)."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.state.rows import RequestRow
from sbx_jupyter.errors import AbortedError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Generator

    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.protocol.platform import NewSandbox

_MAX_KEY: Final = 255


class KeyReusedError(InvalidArgumentError):
    """The idempotency key was used with another request; 422 over HTTP."""


class IdempotencyKeys:
    """The keys of create requests: finished ones in the store, running ones in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[str, str] = {}

    def find(self, key: str, request: NewSandbox, version: int) -> str | None:
        """The id of the sandbox that this request made before, else ``None``.

        Raises ``KeyReusedError`` when the key belongs to another request and ``AbortedError`` when
        the first request is still running.
        """
        fingerprint = _fingerprint(request, version)
        known = self._store.requests.get(key)
        before = self._running.get(key) if known is None else known.fingerprint
        if before is not None and before != fingerprint:
            raise KeyReusedError("Idempotency-Key was used with another request")
        if key in self._running:
            raise AbortedError("a request with this Idempotency-Key is still running")
        return None if known is None else known.sandbox_id

    @contextlib.contextmanager
    def hold(self, key: str, request: NewSandbox, version: int) -> Generator[None]:
        """Mark the key as running, so that ``find`` refuses it until the context ends."""
        self._running[key] = _fingerprint(request, version)
        try:
            yield
        finally:
            del self._running[key]

    def row(self, key: str, request: NewSandbox, version: int, sandbox_id: str) -> RequestRow:
        """The row to store with the new sandbox."""
        return RequestRow(
            key=key, fingerprint=_fingerprint(request, version), sandbox_id=sandbox_id
        )


def check_key(key: str) -> None:
    """Raise ``InvalidArgumentError`` for a malformed key."""
    if not 1 <= len(key) <= _MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidArgumentError(f"Idempotency-Key must have 1 to {_MAX_KEY} characters")


def _fingerprint(request: NewSandbox, version: int) -> str:
    body = msgspec.json.encode(request, order="deterministic")
    return hashlib.sha256(b"%d:%s" % (version, body)).hexdigest()
