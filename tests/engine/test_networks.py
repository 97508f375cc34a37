"""Network configurations: what is refused, and what an update replaces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sbx_jupyter.engine.networks import check_network, replace_egress
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import NetworkConfig


def network(**fields: Any) -> NetworkConfig:
    return msgspec.convert(fields, NetworkConfig)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"allowOut": ["1.1.1.1", "10.0.0.0/8", "2001:db8::/32"], "denyOut": ["8.8.8.8"]},
        {"allowOut": ["example.com", "*.example.com"], "denyOut": ["0.0.0.0/0"]},
        {"dnsServers": ["1.1.1.1"] * 10},
        {"egressProxy": {"address": "proxy.example:1080", "username": "u", "password": "p"}},
        {"egressProxy": {"address": "[::1]:1080"}},
        {"maskRequestHost": "localhost:${PORT}"},
        {"httpsPorts": [443, 8443]},
        {"rules": {"*.Example.com": [{"transform": {"headers": {"X-A": "${e2b.secrets.a}"}}}]}},
        {"rules": {"example.com": []}},
    ],
)
def test_a_sound_configuration_is_kept(fields: dict[str, Any]):
    given = network(**fields)

    checked = check_network(given)

    assert msgspec.structs.replace(checked, rules=None) == msgspec.structs.replace(
        given, rules=None
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"allowOut": ["example.com"]}, "ALL_TRAFFIC"),
        ({"allowOut": ["example.com"], "denyOut": ["10.0.0.0/8"]}, "ALL_TRAFFIC"),
        ({"denyOut": ["example.com"]}, "denyOut"),
        ({"allowOut": ["not a domain"], "denyOut": ["0.0.0.0/0"]}, "allowOut"),
        ({"allowOut": ["a.*.com"], "denyOut": ["0.0.0.0/0"]}, "allowOut"),
        ({"allowOut": ["1.1.1.1/33"], "denyOut": ["0.0.0.0/0"]}, "allowOut"),
        ({"dnsServers": ["1.1.1.1"] * 11}, "dnsServers"),
        ({"dnsServers": ["::1"]}, "IPv4"),
        ({"dnsServers": ["dns.example"]}, "IPv4"),
        ({"egressProxy": {"address": "nowhere"}}, "host:port"),
        ({"egressProxy": {"address": "a:0"}}, "host:port"),
        ({"egressProxy": {"address": "a:0108010"}}, "host:port"),
        ({"egressProxy": {"address": "a b:1"}}, "host:port"),
        ({"egressProxy": {"address": "a:1", "username": "u" * 256}}, "username"),
        ({"egressProxy": {"address": "a:1", "password": "p" * 256}}, "password"),
        ({"egressProxy": {"address": "a:1", "tls": {"enabled": True, "caCert": "x"}}}, "PEM"),
        ({"maskRequestHost": "a\r\nb"}, "maskRequestHost"),
        ({"maskRequestHost": ""}, "maskRequestHost"),
        ({"httpsPorts": [0]}, "not a port"),
        ({"httpsPorts": [49983]}, "49983"),
        ({"rules": {f"d{n}.com": [] for n in range(11)}}, "10 domains"),
        ({"rules": {"a" * 129: []}}, "128"),
        ({"rules": {"*": []}}, "not a domain"),
        ({"rules": {"1.2.3.4": []}}, "not a domain"),
        ({"rules": {"a.com": [{}, {}]}}, "more than one rule"),
        ({"rules": {"a.com": [], "A.com": []}}, "twice"),
        (
            {"rules": {"a.com": [{"transform": {"headers": {f"h{n}": "" for n in range(21)}}}]}},
            "20 headers",
        ),
        ({"rules": {"a.com": [{"transform": {"headers": {"h" * 65: ""}}}]}}, "header name"),
        ({"rules": {"a.com": [{"transform": {"headers": {"h": "v" * 2049}}}]}}, "2048"),
        ({"rules": {"a.com": [{"transform": {"headers": {"h": "a\r\nb: c"}}}]}}, "not text"),
        ({"rules": {"a.com": [{"transform": {"headers": {"a b": "c"}}}]}}, "header name"),
        ({"rules": {"a.com": [{"block": True}]}}, "only a transform"),
    ],
)
def test_an_unsound_configuration_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        check_network(network(**fields))


def test_rule_domains_are_lower_cased():
    checked = check_network(network(rules={"*.Example.COM": []}))

    assert checked.rules == {"*.example.com": []}


def test_an_update_replaces_egress_and_leaves_ingress():
    before = network(
        allowPublicTraffic=False, maskRequestHost="x", httpsPorts=[443], denyOut=["1.1.1.1"]
    )

    after = replace_egress(before, network(allowOut=["8.8.8.8"], allowPublicTraffic=True))

    assert after == network(
        allowPublicTraffic=False, maskRequestHost="x", httpsPorts=[443], allowOut=["8.8.8.8"]
    )


def test_an_empty_update_clears_all_egress():
    assert replace_egress(network(denyOut=["1.1.1.1"]), network()) is None
