"""Configures the network interface inside a sandbox from outside: address, state and routes.

A socket stays in the network namespace that it was made in, and the process that made the sandbox
owns the user namespace of that one. So one socket of the sandbox's agent is enough to configure the
interface at any time without entering the namespace. Routes exist only for allowed addresses, so
that other connections fail at once; the packet filter also stops programs that bypass the routes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InternalError
from sbx_jupyter.isolation.kernel import tap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbx_jupyter.isolation.full_network.tap_filter import Range

GATEWAY: Final = ipaddress.IPv4Address("10.0.2.2")
RESOLVER: Final = ipaddress.IPv4Address("10.0.2.3")
MTU: Final = 65520
_ADDRESS: Final = ipaddress.IPv4Address("10.0.2.100")
_MASK: Final = ipaddress.IPv4Address("255.255.255.0")
_MAX_ROUTES: Final = 1024

_SIOCGSKNS: Final = 0x894C
_NS_GET_USERNS: Final = 0xB701
_SIOCADDRT: Final = 0x890B
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFADDR: Final = 0x8916
_SIOCSIFNETMASK: Final = 0x891C
_SIOCSIFMTU: Final = 0x8922
_IFF_UP: Final = 0x1
_RTF_UP: Final = 0x1
_RTF_GATEWAY: Final = 0x2


class Link:
    """The network interface inside one sandbox."""

    def __init__(self, sock: socket.socket) -> None:
        """Take ownership of ``sock``, a socket of the sandbox's network namespace.

        Raises ``InternalError`` if it is of the engine's namespace, ``OSError`` if the kernel
        denies access to its namespaces.
        """
        self._sock = sock
        self.network = self.users = -1
        try:
            # These ioctl calls return new descriptors.
            self.network = fcntl.ioctl(sock, _SIOCGSKNS)
            os.set_inheritable(self.network, False)
            own = os.stat("/proc/self/ns/net")
            if os.fstat(self.network).st_ino == own.st_ino:
                raise InternalError("the sandbox answered with a socket that is not its own")
            self.users = fcntl.ioctl(self.network, _NS_GET_USERNS)
            os.set_inheritable(self.users, False)
        except BaseException:
            self.close()
            raise

    def bring_up(self, ranges: Iterable[Range]) -> None:
        """Bring the interface up, with routes to the ranges. Raises ``OSError``."""
        self.bring_down()
        self._set_address(_SIOCSIFADDR, _ADDRESS)
        self._set_address(_SIOCSIFNETMASK, _MASK)
        self._request(_SIOCSIFMTU, struct.pack("i12x", MTU))
        self._request(_SIOCSIFFLAGS, struct.pack("h14x", _IFF_UP))
        networks = list(prefixes(ranges))
        if len(networks) > _MAX_ROUTES:
            networks = [ipaddress.IPv4Network("0.0.0.0/0")]
        for network in networks:
            self._add_route(network)

    def bring_down(self) -> None:
        """Bring the interface down, which removes its routes. Raises ``OSError``."""
        self._request(_SIOCSIFFLAGS, struct.pack("h14x", 0))

    def belongs_to(self, pid: int) -> bool:
        """Whether the interface is in the network namespace of a process. Raises ``OSError``."""
        own, other = os.fstat(self.network), os.stat(f"/proc/{pid}/ns/net")
        return (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino)

    def close(self) -> None:
        """Close the descriptors; the interface stays as it is."""
        self._sock.close()
        for fd in (self.network, self.users):
            if fd >= 0:
                os.close(fd)
        self.network = self.users = -1

    def _set_address(self, command: int, address: ipaddress.IPv4Address) -> None:
        self._request(command, _sockaddr(address))

    def _request(self, command: int, value: bytes) -> None:
        fcntl.ioctl(self._sock, command, struct.pack("16s24s", tap.NAME.encode(), value))

    def _add_route(self, network: ipaddress.IPv4Network) -> None:
        route = struct.pack(
            "Q16s16s16sHhxxxxQQhxxxxxxQQQHxxxxxx",
            0,
            _sockaddr(network.network_address),
            _sockaddr(GATEWAY),
            _sockaddr(network.netmask),
            _RTF_UP | _RTF_GATEWAY,
            0, 0, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip
        try:
            fcntl.ioctl(self._sock, _SIOCADDRT, route)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise


def prefixes(ranges: Iterable[Range]) -> Iterator[ipaddress.IPv4Network]:
    """The networks that make up the ranges."""
    for first, last in ranges:
        yield from ipaddress.summarize_address_range(
            ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
        )


def _sockaddr(address: ipaddress.IPv4Address) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, address.packed)


def has_interface(sock: socket.socket) -> bool:
    """Whether the namespace of a socket has the interface that a full network needs."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(sock, 0x8913, struct.pack("16s24x", tap.NAME.encode()))  # SIOCGIFFLAGS
        return True
    return False
