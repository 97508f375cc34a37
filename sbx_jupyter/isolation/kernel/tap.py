"""The network interface of a sandbox that may use the whole network.

It is made in the sandbox's network namespace before any of its code runs and stays there, down and
without an address, until the engine connects its other end. Programs inside cannot change it: they
lack the capability. Uses the standard library only, for the zygote.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

NAME: Final = "tap0"

_DEVICE: Final = "/dev/net/tun"
_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000


def make() -> None:
    """Make the interface in this process's network namespace.

    Needs the device before ids change, since it may be open to the engine's id alone. Raises
    ``OSError``.
    """
    fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", NAME.encode(), _IFF_TAP | _IFF_NO_PI)
        fcntl.ioctl(fd, _TUNSETIFF, request)
        fcntl.ioctl(fd, _TUNSETPERSIST, 1)
    finally:
        os.close(fd)
