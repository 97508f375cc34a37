"""What the protocols that a sandbox speaks to its proxy need of the proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.policy import Address
    from sbx_jupyter.engine.egress.proxy.dialer import Dialer


class WayOut(Protocol):
    """Dials what the rules allow, and is told what became of each request."""

    dialer: Dialer

    def refused(self, target: str, reason: str) -> None:
        """Record a refusal."""
        ...

    def tunnel_opened(self, name: str | None, address: Address) -> None:
        """Remember what the running connection is for, so that new rules can close it."""
        ...
