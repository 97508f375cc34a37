"""The ranges and the packet filter of a policy say the same as the policy itself."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.engine.egress.full_network import NetworkAccess
from sbx_jupyter.engine.egress.policy import EgressPolicy
from sbx_jupyter.engine.egress.proxy.refusal_log import BURST, RefusalLog
from sbx_jupyter.engine.egress.ranges import covers, reachable
from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError
from sbx_jupyter.isolation.full_network import tap_filter
from sbx_jupyter.isolation.full_network.link import prefixes
from sbx_jupyter.protocol.platform import EgressProxy, NetworkConfig

RESOLVER = int(ipaddress.IPv4Address("10.0.2.3"))

addresses = st.integers(0, 0xFFFFFFFF).map(ipaddress.IPv4Address)
networks = st.builds(
    lambda address, size: str(ipaddress.IPv4Network((address, size), strict=False)),
    addresses,
    st.integers(0, 32),
)


def runs(program: bytes, frame: bytes) -> bool:
    """What the kernel would do with a frame."""
    code = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = index = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation in (0x20, 0x28, 0x30, 0x48):
            start = value + (index if operation == 0x48 else 0)
            size = {0x20: 4, 0x28: 2, 0x30: 1, 0x48: 2}[operation]
            if start + size > len(frame):
                return False
            accumulator = int.from_bytes(frame[start : start + size])
        elif operation == 0xB1:
            index = 4 * (frame[value] & 0xF)
        elif operation == 0x06:
            return value > 0
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: accumulator & value != 0,
            }[operation]
            at += if_true if holds else if_false


def packet(address: int, *, protocol: int = 6, port: int = 80, words: int = 5, piece: int = 0):
    head = bytes([0x40 | words, 0]) + struct.pack(">HHHBBH", 40, 0, piece, 64, protocol, 0)
    head += b"\x0a\0\x02\x64" + address.to_bytes(4)
    options = b"\x01" * (4 * words - 20)
    return bytes(12) + b"\x08\0" + head + options + struct.pack(">HHI", 40000, port, 0)


def judges(policy: EgressPolicy, address: ipaddress.IPv4Address) -> bool:
    try:
        policy.check(None, address)
    except PermissionDeniedError:
        return False
    return True


@given(
    allow=st.lists(networks, max_size=4),
    deny=st.lists(networks, max_size=4),
    exceptions=st.lists(networks, max_size=2),
    own=st.lists(addresses, max_size=3),
    others=st.lists(addresses, max_size=20),
)
def test_the_filter_passes_what_the_policy_allows(
    allow: list[str],
    deny: list[str],
    exceptions: list[str],
    own: list[ipaddress.IPv4Address],
    others: list[ipaddress.IPv4Address],
) -> None:
    policy = EgressPolicy.from_config(
        NetworkConfig(allow_out=allow, deny_out=deny),
        exceptions=[ipaddress.ip_network(item) for item in exceptions],
        own_addresses=own,
    )
    ranges = reachable(policy)
    program = tap_filter.build(ranges)
    edges = {edge for first, last in ranges for edge in (first - 1, first, last, last + 1)}

    for number in {*edges, *map(int, [*own, *others])}:
        if not 0 <= number <= 0xFFFFFFFF:
            continue
        address = ipaddress.IPv4Address(number)
        assert runs(program, packet(number)) == judges(policy, address), address


def test_without_rules_the_public_internet_is_left() -> None:
    ranges = reachable(EgressPolicy.from_config(None))
    program = tap_filter.build(ranges, RESOLVER)

    for denied in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.1.1", "224.0.0.1",
                   "255.255.255.255", "0.0.0.0", "100.64.0.1"):  # fmt: skip
        assert not runs(program, packet(int(ipaddress.IPv4Address(denied))))
    assert runs(program, packet(int(ipaddress.IPv4Address("8.8.8.8"))))
    assert 20 < len(list(prefixes(ranges))) < 200


def test_only_ipv4_and_questions_for_addresses_pass() -> None:
    program = tap_filter.build([(0, 0xFFFFFFFF)])

    assert runs(program, bytes(12) + b"\x08\x06" + bytes(28))
    assert not runs(program, bytes(12) + b"\x86\xdd" + bytes(60))
    assert not runs(program, bytes(12) + b"\x81\0" + packet(1)[12:])
    assert not runs(program, bytes(12) + b"\x08\0")


@pytest.mark.parametrize("protocol", [6, 17])
@pytest.mark.parametrize("words", [5, 6, 15])
def test_the_resolver_is_reached_at_its_port_only(protocol: int, words: int) -> None:
    program = tap_filter.build([], RESOLVER)

    assert runs(program, packet(RESOLVER, protocol=protocol, port=53, words=words))
    assert not runs(program, packet(RESOLVER, protocol=protocol, port=80, words=words))
    assert not runs(program, packet(RESOLVER, protocol=protocol, port=53, words=words, piece=1))
    assert not runs(program, packet(RESOLVER, protocol=1, port=53, words=words))
    assert not runs(program, packet(RESOLVER + 1, protocol=protocol, port=53, words=words))


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="too many"):
        tap_filter.build([(number * 4, number * 4) for number in range(2000)])


def test_one_set_of_ranges_covers_another() -> None:
    assert covers([(1, 9), (20, 30)], [(2, 3), (20, 30)])
    assert covers([(1, 2)], [])
    assert not covers([(1, 9)], [(9, 10)])
    assert not covers([], [(1, 1)])


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (NetworkConfig(allow_out=["a.test"], deny_out=["0.0.0.0/0"]), "name domains"),
        (NetworkConfig(rules={"a.test": [{}]}), "set headers"),
        (NetworkConfig(egress_proxy=EgressProxy(address="a.test:1")), "egress proxy"),
    ],
)
def test_what_needs_names_is_the_proxys(network: NetworkConfig, why: str) -> None:
    access = NetworkAccess.of(EgressPolicy.from_config(network), network)

    assert access.ranges == ()
    assert why in (access.proxy_only_reason or "")


def test_where_all_is_denied_but_addresses_nobody_asks_for_names() -> None:
    network = NetworkConfig(allow_out=["20.0.0.1"], deny_out=["0.0.0.0/0"])
    access = NetworkAccess.of(EgressPolicy.from_config(network), network)

    assert len(access.ranges) == 1
    assert not access.resolves
    assert "10.0.2.3" not in access.resolv_conf()


def test_a_flood_of_refusals_leaves_few_entries_and_their_number() -> None:
    entries: list[dict[str, str]] = []
    time = [0.0]
    log = RefusalLog(
        lambda sandbox_id, level, message, fields: entries.append(dict(fields)), lambda: time[0]
    )
    for _ in range(1000):
        log.note("one", "a" * 1000, "why")
    assert len(entries) == BURST
    assert all(len(entry["target"]) <= 300 for entry in entries)

    log.note("two", "b", "why")
    time[0] += 10
    log.note("one", "a", "why")
    assert len(entries) == BURST + 2
    assert entries[-1]["not_logged"] == str(1000 - BURST)
