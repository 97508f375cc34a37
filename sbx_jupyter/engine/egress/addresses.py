"""Reads the addresses of this machine, which no sandbox may reach."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.engine.egress.policy import Address

_LOCAL: Final = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def own_addresses() -> frozenset[Address]:
    """Every address of every interface now, from the kernel's tables."""
    return frozenset([*_own_v4(), *_own_v6()])


def _own_v4() -> Iterator[Address]:
    for text in _LOCAL.findall(_read("/proc/net/fib_trie")):
        yield ipaddress.IPv4Address(text)


def _own_v6() -> Iterator[Address]:
    for line in _read("/proc/net/if_inet6").splitlines():
        yield ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except FileNotFoundError:  # a kernel without IPv4 or IPv6
        return ""
