"""Computes the ranges of IPv4 addresses that a policy allows, for routes and packet filters."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.not_public import NOT_PUBLIC_V4

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbx_jupyter.engine.egress.policy import EgressPolicy, Network
    from sbx_jupyter.isolation.full_network.tap_filter import Range

_EVERYTHING: Final[list[Range]] = [(0, 0xFFFFFFFF)]


def reachable(policy: EgressPolicy) -> list[Range]:
    """The allowed ranges, sorted and without overlaps; entries that are names are ignored."""
    own = [ipaddress.IPv4Network(item) for item in policy.own_addresses if item.version == 4]
    base = _union(_without(_EVERYTHING, [*NOT_PUBLIC_V4, *own]), _spans(policy.exceptions))
    allowed = _intersection(base, _union([], _spans(policy.allow_networks)))
    if policy.denies_all:
        return allowed
    return _union(_without(base, policy.deny_networks), allowed)


def covers(ranges: Iterable[Range], other: Iterable[Range]) -> bool:
    """Whether every address of ``other`` is in ``ranges``."""
    others = list(other)
    return _intersection(list(ranges), others) == others


def _spans(networks: Iterable[Network]) -> list[Range]:
    return [
        (int(network.network_address), int(network.broadcast_address))
        for network in networks
        if network.version == 4
    ]


def _union(left: list[Range], right: list[Range]) -> list[Range]:
    joined: list[Range] = []
    for first, last in sorted([*left, *right]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _without(ranges: list[Range], networks: Iterable[Network]) -> list[Range]:
    gaps: list[Range] = []
    start = 0
    for first, last in _union([], _spans(networks)):
        if first > start:
            gaps.append((start, first - 1))
        start = last + 1
    if start <= 0xFFFFFFFF:
        gaps.append((start, 0xFFFFFFFF))
    return _intersection(ranges, gaps)


def _intersection(left: list[Range], right: list[Range]) -> list[Range]:
    common: list[Range] = []
    at = 0
    for first, last in left:
        while at < len(right) and right[at][1] < first:
            at += 1
        here = at
        while here < len(right) and right[here][0] <= last:
            common.append((max(first, right[here][0]), min(last, right[here][1])))
            here += 1
    return common
