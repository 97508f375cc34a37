"""An open connection through the proxy, and whether the current rules still allow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.errors import UnavailableError

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.policy import Address, EgressPolicy

HeaderRule = Mapping[str, str]
"""The headers to set on the requests to a name, with placeholders for secrets."""


@dataclass(slots=True)
class Tunnel:
    """A connection to ``address``, which the sandbox asked for as ``host``.

    With ``keeps_rule``, ``rule`` applies for as long as the tunnel is open (``None``: no headers),
    because the proxy only relays its bytes. Without, headers are set for each request or never.
    """

    host: str
    address: Address
    keeps_rule: bool = False
    rule: HeaderRule | None = None

    @property
    def name(self) -> str | None:
        """The host if it is a name, ``None`` if it is the address."""
        return self.host if self.host != str(self.address) else None

    def check(self, policy: EgressPolicy, rule: HeaderRule | None) -> None:
        """Raise an error unless the policy and the header rule for its host allow it as it is.

        Raises ``PermissionDeniedError`` when they deny the address, ``UnavailableError`` when the
        connection must be made anew for its header rule to apply.
        """
        policy.check(self.name, self.address)
        if self.keeps_rule and rule != self.rule:
            raise UnavailableError(f"the header rule for {self.host} has changed; connect again")
