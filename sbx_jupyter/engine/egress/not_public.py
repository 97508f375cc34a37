"""The addresses that are not part of the public internet, as data.

Sources: the IANA registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890), those of
multicast addresses, and the IANA registry of IPv6, in which 2000::/3 is all that was assigned as
global unicast. Python's ``is_global`` is not used, since its answer depends on the version.

Where a registry says that a part of a block is reachable, such as the anycast addresses that change
the configuration of the nearest router, the whole block is listed.
"""

from __future__ import annotations

import ipaddress
from typing import Final

NOT_PUBLIC_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared between a provider and its customers; a metadata service
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the platform service of Azure, in the midst of public addresses
        "169.254.0.0/16",  # link local, with the metadata services of most clouds
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is a metadata service
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4, deprecated
        "192.168.0.0/16",  # private use
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, with broadcast
    )
)

GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""No IPv6 address outside of it is public, but those of ``EMBEDDING``."""

NOT_PUBLIC_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, with Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, deprecated: the relay may be the machine's own
        "3fff::/20",  # documentation
    )
)

EMBEDDING: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "::ffff:0:0/96",  # an IPv4 address, as programs for IPv6 write it
        "64:ff9b::/96",  # an IPv4 address behind a translator
    )
)
"""Networks of addresses whose last 32 bits are the IPv4 address that is reached."""
