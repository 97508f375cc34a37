"""The interface of the proxy that the HTTP and SOCKS handlers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.policy import Address
    from sbx_jupyter.engine.egress.proxy.dialer import Dialer

_LONGEST_NAME: Final = 253
"""The longest name in the domain name system."""


class Proxy(Protocol):
    """Opens connections to the outside, and records which were made or refused."""

    dialer: Dialer

    def refused(self, target: str, reason: str) -> None:
        """Record that a connection was refused."""
        ...

    def tunnel_opened(self, name: str | None, address: Address) -> None:
        """Record the target of the current task's connection, so that new rules can close it."""
        ...


def is_host(text: str) -> bool:
    """Whether a target may be a host: only such names are looked up, and shown in logs."""
    return 0 < len(text) <= _LONGEST_NAME and all("!" <= letter <= "~" for letter in text)
