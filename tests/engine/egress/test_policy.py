"""Which addresses and names a sandbox may reach (interface 8.1)."""

from __future__ import annotations

import ipaddress

import pytest

from sbx_jupyter.engine.egress.policy import EgressPolicy, is_domain, is_public, matches_domain
from sbx_jupyter.errors import PermissionDeniedError
from sbx_jupyter.protocol.platform import NetworkConfig

PUBLIC = ipaddress.ip_address("93.184.216.34")


def policy(**fields: object) -> EgressPolicy:
    return EgressPolicy.from_config(NetworkConfig(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2002:a9fe:a9fe::1", "192.0.2.1", "198.18.0.1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused_whatever_is_allowed(address: str) -> None:
    target = ipaddress.ip_address(address)

    assert not is_public(target)
    with pytest.raises(PermissionDeniedError, match="not a public address"):
        policy(allow_out=["0.0.0.0/0", "::/0", address, "evil.example"]).check(
            "evil.example", target
        )


@pytest.mark.parametrize("text", ["2606:4700::1", "2606:4700::1%1", "::ffff:93.184.216.34"])
def test_addresses_of_the_machine_are_refused_in_any_spelling(text: str) -> None:
    own = [ipaddress.ip_address("2606:4700::1"), PUBLIC]
    rules = EgressPolicy.from_config(NetworkConfig(allow_out=["::/0"]), own_addresses=own)

    with pytest.raises(PermissionDeniedError, match="not a public address"):
        rules.check(None, ipaddress.ip_address(text))


def test_everything_public_is_allowed_when_nothing_is_said() -> None:
    EgressPolicy.from_config(None).check("example.com", PUBLIC)
    EgressPolicy.from_config(None).check(None, ipaddress.ip_address("2606:4700::1111"))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111"])
def test_denying_all_traffic_means_both_families(address: str) -> None:
    denied = policy(deny_out=["0.0.0.0/0"])

    assert denied.denies_all
    with pytest.raises(PermissionDeniedError, match="denied by the sandbox's network"):
        denied.check("example.com", ipaddress.ip_address(address))


def test_no_internet_access_denies_all_traffic() -> None:
    assert EgressPolicy.from_config(None, allow_internet_access=False).denies_all


def test_allow_entries_win_over_deny_entries() -> None:
    rules = policy(allow_out=["93.184.216.0/24", "*.example.org"], deny_out=["0.0.0.0/0"])

    rules.check(None, PUBLIC)
    rules.check("a.b.example.org", ipaddress.ip_address("8.8.8.8"))
    with pytest.raises(PermissionDeniedError):
        rules.check("example.org", ipaddress.ip_address("8.8.8.8"))


def test_a_denied_network_leaves_the_rest_open() -> None:
    rules = policy(deny_out=["8.8.8.0/24"])

    rules.check(None, PUBLIC)
    with pytest.raises(PermissionDeniedError):
        rules.check("dns.example", ipaddress.ip_address("8.8.8.8"))


def test_the_machines_own_public_address_is_refused() -> None:
    rules = EgressPolicy.from_config(None, own_addresses=[PUBLIC])

    with pytest.raises(PermissionDeniedError):
        rules.check("me.example", PUBLIC)


def test_the_operator_may_name_exceptions() -> None:
    mirror = ipaddress.ip_address("10.0.0.5")
    rules = EgressPolicy.from_config(None, exceptions=[ipaddress.ip_network("10.0.0.5/32")])

    rules.check("mirror.internal", mirror)
    with pytest.raises(PermissionDeniedError):
        rules.check(None, ipaddress.ip_address("10.0.0.6"))


@pytest.mark.parametrize(
    ("name", "pattern", "matched"),
    [
        ("example.com", "example.com", True),
        ("EXAMPLE.com.", "example.com", True),
        ("a.example.com", "example.com", False),
        ("a.example.com", "*.example.com", True),
        ("a.b.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("notexample.com", "*.example.com", False),
        (".example.com", "*.example.com", False),
    ],
)
def test_domain_patterns(name: str, pattern: str, matched: bool) -> None:
    assert matches_domain(name, pattern) is matched


@pytest.mark.parametrize("text", ["example.com", "*.example.com", "localhost", "a_b.example"])
def test_host_names_are_domains(text: str) -> None:
    assert is_domain(text)


@pytest.mark.parametrize("text", ["", "*", "*.", "a..b", "-a.example", "a b", "*.*.x", "x" * 300])
def test_other_texts_are_not_domains(text: str) -> None:
    assert not is_domain(text)
