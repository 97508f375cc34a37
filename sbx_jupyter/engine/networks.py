"""Checks network configurations, and applies updates to them (interface 8.1)."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final, cast

import msgspec

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import EgressProxy, NetworkConfig
from sbx_jupyter.protocol.runtime import RUNTIME_PORT

ALL_TRAFFIC: Final = "0.0.0.0/0"

_MAX_ENTRIES: Final = 1000
_MAX_DNS_SERVERS: Final = 10
_MAX_RULE_DOMAINS: Final = 10
_MAX_RULE_DOMAIN: Final = 128
_MAX_HEADERS: Final = 20
_MAX_HEADER_NAME: Final = 64
_MAX_HEADER_VALUE: Final = 2048
_LONGEST_PORT: Final = 16
_MAX_CREDENTIAL: Final = 255
_MAX_SERVER_NAME: Final = 253
_MAX_CERTIFICATE: Final = 8192

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_DOMAIN: Final = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*\.?\Z", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*\Z")
_HOST: Final = re.compile(r"[\x21-\x7e]{1,512}\Z")


def check_network(network: NetworkConfig) -> NetworkConfig:
    """Check and normalise the configuration of a create; raises ``InvalidArgumentError``."""
    network = check_egress(network)
    if network.mask_request_host is not None and not _HOST.match(network.mask_request_host):
        raise InvalidArgumentError("maskRequestHost is not a host name")
    for port in network.https_ports or ():
        if not 0 < port < 65536:
            raise InvalidArgumentError(f"httpsPorts: {port} is not a port")
        if port == RUNTIME_PORT:
            raise InvalidArgumentError(f"httpsPorts: port {RUNTIME_PORT} is not allowed")
    return network


def check_egress(network: NetworkConfig) -> NetworkConfig:
    """Check and normalise the egress part; raises ``InvalidArgumentError``."""
    _check_entries(network)
    servers = network.dns_servers or []
    if len(servers) > _MAX_DNS_SERVERS:
        raise InvalidArgumentError(f"dnsServers: at most {_MAX_DNS_SERVERS} servers are allowed")
    for server in servers:
        if not _is_address(server, version=4):
            raise InvalidArgumentError(f"dnsServers: '{server}' is not an IPv4 address")
    if network.egress_proxy is not None:
        _check_proxy(network.egress_proxy)
    if network.rules is None:
        return network
    return msgspec.structs.replace(network, rules=_check_rules(network.rules))


def replace_egress(before: NetworkConfig | None, update: NetworkConfig) -> NetworkConfig | None:
    """The configuration after an update: egress of ``update``, ingress of ``before``.

    Returns ``None`` for one that equals the default. Raises ``InvalidArgumentError``.
    """
    checked = check_egress(update)
    before = before or NetworkConfig()
    after = msgspec.structs.replace(
        checked,
        allow_public_traffic=before.allow_public_traffic,
        mask_request_host=before.mask_request_host,
        https_ports=before.https_ports,
        allow_internet_access=None,
    )
    return None if after == NetworkConfig() else after


def _check_entries(network: NetworkConfig) -> None:
    allowed, denied = network.allow_out or [], network.deny_out or []
    if max(len(allowed), len(denied)) > _MAX_ENTRIES:
        raise InvalidArgumentError(f"at most {_MAX_ENTRIES} network entries are allowed")
    for entry in denied:
        if not _is_network(entry):
            raise InvalidArgumentError(
                f"denyOut: '{entry}' is not an IP address or CIDR; domains cannot be denied"
            )
    domains = [entry for entry in allowed if not _is_network(entry)]
    for entry in domains:
        if not _DOMAIN.match(entry):
            raise InvalidArgumentError(f"allowOut: '{entry}' is not an IP address, CIDR or domain")
    if domains and ALL_TRAFFIC not in denied and network.allow_internet_access is not False:
        raise InvalidArgumentError(
            f"allowOut has domains ('{domains[0]}'), which need ALL_TRAFFIC ('{ALL_TRAFFIC}') "
            "in denyOut"
        )


def _check_proxy(proxy: EgressProxy) -> None:
    host, colon, port = proxy.address.rpartition(":")
    is_port = port.isdecimal() and len(port) <= _LONGEST_PORT and 0 < int(port) < 65536
    if not colon or not host or not is_port:
        raise InvalidArgumentError("egressProxy: address must be host:port")
    if not _is_address(host.strip("[]")) and not _DOMAIN.match(host):
        raise InvalidArgumentError("egressProxy: address must be host:port")
    for name, value in (("username", proxy.username), ("password", proxy.password)):
        if value is not None and len(value.encode()) > _MAX_CREDENTIAL:
            raise InvalidArgumentError(f"egressProxy: {name} is longer than {_MAX_CREDENTIAL}")
    if proxy.tls is None:
        return
    if len(proxy.tls.server_name or "") > _MAX_SERVER_NAME:
        raise InvalidArgumentError(f"egressProxy: serverName is longer than {_MAX_SERVER_NAME}")
    certificate = proxy.tls.ca_cert
    if certificate is not None:
        if len(certificate.encode()) > _MAX_CERTIFICATE:
            raise InvalidArgumentError(f"egressProxy: caCert is longer than {_MAX_CERTIFICATE}")
        if "-----BEGIN CERTIFICATE-----" not in certificate:
            raise InvalidArgumentError("egressProxy: caCert is not a PEM certificate")


def _check_rules(rules: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    if len(rules) > _MAX_RULE_DOMAINS:
        raise InvalidArgumentError(f"rules: at most {_MAX_RULE_DOMAINS} domains are allowed")
    checked: dict[str, list[dict[str, Any]]] = {}
    for given, entries in rules.items():
        domain = given.lower()
        if len(domain) > _MAX_RULE_DOMAIN:
            raise InvalidArgumentError(f"rules: a domain is longer than {_MAX_RULE_DOMAIN}")
        if not _DOMAIN.match(domain) or _is_address(domain):
            raise InvalidArgumentError(f"rules: '{given}' is not a domain")
        if domain in checked:
            raise InvalidArgumentError(f"rules: '{domain}' is given twice")
        if len(entries) > 1:
            raise InvalidArgumentError(f"rules: '{domain}' has more than one rule")
        for entry in entries:
            _check_rule(domain, entry)
        checked[domain] = entries
    return checked


def _check_rule(domain: str, rule: dict[str, Any]) -> None:
    transform = _as_object(rule.get("transform"))
    if set(rule) - {"transform"} or transform is None:
        raise InvalidArgumentError(f"rules: '{domain}': a rule has only a transform")
    headers = _as_object(transform.get("headers"))
    if set(transform) - {"headers"} or headers is None:
        raise InvalidArgumentError(f"rules: '{domain}': a transform has only headers")
    if len(headers) > _MAX_HEADERS:
        raise InvalidArgumentError(f"rules: '{domain}' has more than {_MAX_HEADERS} headers")
    for name, value in headers.items():
        if len(name) > _MAX_HEADER_NAME or not _HEADER_NAME.match(name):
            raise InvalidArgumentError(f"rules: '{domain}': '{name[:80]}' is not a header name")
        if not isinstance(value, str) or not _HEADER_VALUE.match(value):
            raise InvalidArgumentError(f"rules: '{domain}': the value of '{name}' is not text")
        if len(value) > _MAX_HEADER_VALUE:
            raise InvalidArgumentError(
                f"rules: '{domain}': the value of '{name}' is longer than {_MAX_HEADER_VALUE}"
            )


def _as_object(value: object) -> dict[str, Any] | None:
    """A JSON object, empty where there is no value; ``None`` for a value of another kind."""
    if not value:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_address(text: str, version: int | None = None) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return version is None or address.version == version
