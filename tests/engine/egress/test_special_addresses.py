"""Nothing that a registry calls special is public, and both modules say so."""

from __future__ import annotations

import csv
import ipaddress
from pathlib import Path

import pytest

from sbx_jupyter.engine.egress.policy import Address, EgressPolicy, Network, is_public
from sbx_jupyter.engine.egress.ranges import covers, reachable

REGISTRIES = Path(__file__).parent / "registries"
"""The IANA registries of special-purpose addresses (RFC 6890); footnotes are left out."""

EMBEDDING = tuple(ipaddress.ip_network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96"))
REFUSED_AS_A_WHOLE = tuple(ipaddress.ip_network(text) for text in ("192.0.0.0/24", "2001::/23"))
"""They hold blocks that are reachable, which no sandbox needs."""

RANGES = reachable(EgressPolicy())


def rows() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for path in sorted(REGISTRIES.iterdir()):
        with path.open(newline="") as file:
            found += [
                (row["Address Block"], row["Name"], row["Globally Reachable"])
                for row in csv.DictReader(file)
            ]
    return found


def places(block: Network) -> list[Address]:
    """The first address, the middle one and the last."""
    return [block[0], block[block.num_addresses // 2], block[-1]]


def is_within(block: Network, outer: Network) -> bool:
    return block.version == outer.version and block[0] in outer


def check(address: Address, expected: bool) -> None:
    assert is_public(address) is expected, address
    if address.version == 4:
        assert covers(RANGES, [(int(address), int(address))]) is expected, address


def test_the_registries_are_read() -> None:
    assert len(rows()) == 51
    assert {reachable for _, _, reachable in rows()} == {"True", "False", "N/A"}


@pytest.mark.parametrize(("text", "name", "is_reachable"), rows())
def test_special_addresses_are_public_only_if_they_are_reachable(
    text: str, name: str, is_reachable: str
) -> None:
    block = ipaddress.ip_network(text)
    for address in places(block):
        if block in EMBEDDING:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            assert is_public(address) is is_public(inner)
            continue
        is_refused = any(is_within(block, outer) for outer in REFUSED_AS_A_WHOLE)
        check(address, is_reachable == "True" and not is_refused)


@pytest.mark.parametrize(
    "block",
    [
        "224.0.0.0/4",  # multicast
        "ff00::/8",  # multicast
        "::/96",  # IPv4-compatible, deprecated
        "fec0::/10",  # site-local, deprecated
        "::/3", "4000::/2", "8000::/1",  # not assigned as global unicast
        "64:ff9b:1::/48",
        "2002::/16", "2001::/32",
    ],
)  # fmt: skip
def test_blocks_of_other_registries_are_not_public(block: str) -> None:
    for address in places(ipaddress.ip_network(block)):
        check(address, False)


@pytest.mark.parametrize(
    "text",
    [
        "168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192",
        "fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe",
        "::a83f:8110", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::1",
        "64:ff9b:1::a83f:8110", "::10.0.0.1", "2002:0808:0808::1",
        "2001:0:0808:0808::f7f7:f7f7",
    ],
)  # fmt: skip
def test_metadata_services_are_not_public_in_any_form(text: str) -> None:
    check(ipaddress.ip_address(text), False)


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8", "1.0.0.0", "168.63.129.15", "168.63.129.17", "223.255.255.255", "192.0.1.0",
        "2606:4700::1111", "2001:200::1", "2003::1", "2a00:1450::1", "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_others_are_public(text: str) -> None:
    check(ipaddress.ip_address(text), True)


def test_the_answer_does_not_depend_on_the_version_of_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> bool:
        raise AssertionError("Python's own tables were asked")

    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for name in ("is_global", "is_private", "is_reserved", "is_multicast", "is_link_local"):
            monkeypatch.setattr(kind, name, property(refuse))

    assert is_public(ipaddress.ip_address("8.8.8.8"))
    assert not is_public(ipaddress.ip_address("fec0::1"))
