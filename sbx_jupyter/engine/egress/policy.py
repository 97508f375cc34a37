"""Decides which addresses and names a sandbox may reach (interface 8.1, "Evaluation").

Allow entries win over deny entries; with neither, everything public is allowed. Addresses that
are not public (loopback, private, link-local with the cloud metadata service, multicast, reserved)
and the machine's own addresses are refused whatever the entries say, unless the operator named
them as exceptions. Addresses are checked after resolution, and the checked address is the one
that is dialled, so a name that resolves differently the second time does not bypass the check.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.engine.egress.not_public import (
    EMBEDDING,
    GLOBAL_UNICAST,
    NOT_PUBLIC_V4,
    NOT_PUBLIC_V6,
)
from sbx_jupyter.errors import PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbx_jupyter.protocol.platform import NetworkConfig

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALL_TRAFFIC = "0.0.0.0/0"
_DOMAIN = re.compile(
    r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\Z"
)


def parse_network(text: str) -> Network | None:
    """The network in a CIDR or an address; ``None`` if the text is neither."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def is_domain(text: str) -> bool:
    """Whether the text is a host name, with at most one leading ``*.``."""
    lowered = text.lower().rstrip(".")
    return len(lowered) <= 253 and _DOMAIN.match(lowered) is not None


def matches_domain(name: str, pattern: str) -> bool:
    """Whether a host name falls under ``example.com`` or ``*.example.com`` (not the apex)."""
    name, pattern = name.lower().rstrip("."), pattern.lower().rstrip(".")
    if pattern.startswith("*."):
        return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1
    return name == pattern


def embedded_address(address: Address) -> Address:
    """The IPv4 address embedded in an IPv6 address, else the address itself, without a zone."""
    if any(address in block for block in EMBEDDING):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    # With a zone, as in "2001::1%1", it would equal none of the machine's own addresses.
    return ipaddress.IPv6Address(int(address)) if address.version == 6 else address


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet."""
    inner = embedded_address(address)
    if isinstance(inner, ipaddress.IPv4Address):
        return not any(inner in block for block in NOT_PUBLIC_V4)
    return inner in GLOBAL_UNICAST and not any(inner in block for block in NOT_PUBLIC_V6)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The parsed network entries of one sandbox."""

    allow_networks: tuple[Network, ...] = ()
    allow_domains: tuple[str, ...] = ()
    deny_networks: tuple[Network, ...] = ()
    exceptions: tuple[Network, ...] = ()
    own_addresses: frozenset[Address] = field(default_factory=frozenset[Address])

    @classmethod
    def from_config(
        cls,
        config: NetworkConfig | None,
        *,
        allow_internet_access: bool | None = None,
        exceptions: Sequence[Network] = (),
        own_addresses: Iterable[Address] = (),
    ) -> EgressPolicy:
        """Parse a validated network configuration; ``exceptions`` are the operator's."""
        allow = (config.allow_out if config else None) or []
        deny = list((config.deny_out if config else None) or [])
        if allow_internet_access is False:
            deny.append(ALL_TRAFFIC)
        return cls(
            allow_networks=tuple(net for item in allow if (net := parse_network(item))),
            allow_domains=tuple(item for item in allow if parse_network(item) is None),
            deny_networks=tuple(net for item in deny if (net := parse_network(item))),
            exceptions=tuple(exceptions),
            own_addresses=frozenset(own_addresses),
        )

    @property
    def denies_all(self) -> bool:
        """Whether everything is denied that no entry allows."""
        return any(net.prefixlen == 0 for net in self.deny_networks)

    def check_name(self, host: str) -> None:
        """Raise ``PermissionDeniedError`` for a name that is denied whatever its address.

        Such a name is not looked up, since a DNS query can carry data out of the sandbox.
        """
        if not self.denies_all or self.allow_networks or _is_address(host):
            return
        if not any(matches_domain(host, item) for item in self.allow_domains):
            raise PermissionDeniedError(f"{host} is denied by the sandbox's network")

    def check(self, name: str | None, address: Address) -> None:
        """Raise ``PermissionDeniedError`` unless ``address``, asked for as ``name``, is allowed."""
        inner = embedded_address(address)
        excepted = any(inner in net for net in self.exceptions)
        if not excepted and (not is_public(inner) or inner in self.own_addresses):
            raise PermissionDeniedError(f"{address} is not a public address")
        if name is not None and any(matches_domain(name, item) for item in self.allow_domains):
            return
        if any(inner in net for net in self.allow_networks):
            return
        if any(self._denies(net, inner) for net in self.deny_networks):
            raise PermissionDeniedError(f"{name or address} is denied by the sandbox's network")

    @staticmethod
    def _denies(network: Network, address: Address) -> bool:
        # "All traffic" is written as an IPv4 network and means both families.
        return network.prefixlen == 0 or address in network
