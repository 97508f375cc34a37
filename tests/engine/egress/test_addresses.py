"""The machine's own addresses are known."""

from __future__ import annotations

import ipaddress

from sbx_jupyter.engine.egress.addresses import own_addresses


def test_loopback_is_among_the_machines_own_addresses() -> None:
    assert ipaddress.ip_address("127.0.0.1") in own_addresses()
