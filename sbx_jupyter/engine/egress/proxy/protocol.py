"""The interface of the proxy that the HTTP and SOCKS handlers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import ssl

    from sbx_jupyter.engine.egress.proxy.dialer import Stream
    from sbx_jupyter.engine.egress.proxy.tunnel import HeaderRule, Tunnel

_LONGEST_NAME: Final = 253
"""The longest name in the domain name system."""


class HeaderRules(Protocol):
    """The header rules of one sandbox; see ``Interceptor``."""

    def wants(self, host: str) -> bool: ...
    def rule_for(self, host: str) -> HeaderRule | None: ...
    def headers_for(self, host: str) -> list[tuple[bytes, bytes]]: ...
    async def serve(self, proxy: Proxy, inside: Stream, host: str, port: int) -> None: ...


class Proxy(Protocol):
    """Opens connections to the outside, and records which were made or refused."""

    @property
    def interceptor(self) -> HeaderRules | None:
        """The current header rules; new rules replace them at any time."""
        ...

    def refused(self, target: str, reason: str) -> None:
        """Record that a connection was refused."""
        ...

    async def open_tunnel(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        keeps_rule: bool = False,
    ) -> tuple[Stream, Tunnel]:
        """Connect the current task's connection to ``host``; new rules can close it from then on.

        With ``keeps_rule``, that is also when a header rule for ``host`` is added. Raises what
        ``Dialer.dial`` and ``Tunnel.check`` raise.
        """
        ...

    def check(self, tunnel: Tunnel) -> None:
        """Raise what ``Tunnel.check`` raises unless the current rules allow the tunnel."""
        ...


def is_host(text: str) -> bool:
    """Whether a target may be a host: only such names are looked up, and shown in logs."""
    return 0 < len(text) <= _LONGEST_NAME and all("!" <= letter <= "~" for letter in text)
