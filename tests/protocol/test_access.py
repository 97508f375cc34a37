"""Host names, ids, tokens and signatures (interface 1.0.5, 2 and 4.2)."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import access

sandbox_ids = st.from_regex(r"i[a-z0-9]{20}", fullmatch=True)


@given(sandbox_ids, st.integers(1, 65535))
def test_a_host_name_leads_back_to_its_route(sandbox_id: str, port: int) -> None:
    route = access.Route(sandbox_id, port)

    assert access.parse_route_host(access.format_route_host(route, "example.com")) == route


def test_the_legacy_client_id_in_a_host_name_is_dropped() -> None:
    route = access.parse_route_host("8000-iabc-client1.example.com:80")

    assert route == access.Route("iabc", 8000)


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("localhost", "Invalid host"),
        ("8000-iabc", "Invalid host"),
        ("iabc.example.com", "Invalid host"),
        ("8000-.example.com", "Invalid sandbox ID"),
        ("8000-iA.example.com", "Invalid sandbox ID"),
        ("8000-a-b-c.example.com", "Invalid sandbox ID"),
        ("x-iabc.example.com", "Invalid sandbox port"),
        ("0-iabc.example.com", "Invalid sandbox port"),
        ("65536-iabc.example.com", "Invalid sandbox port"),
        ("0080801-iabc.example.com", "Invalid sandbox port"),
        (f"{'1' * 5000}-iabc.example.com", "Invalid sandbox port"),
        ("\u0663-iabc.example.com", "Invalid sandbox port"),
    ],
)
def test_other_hosts_are_refused_with_the_interface_texts(host: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        access.parse_route_host(host)


@pytest.mark.parametrize(
    ("path", "operation", "signature"),
    [
        ("x", "read", "v1_ZV3t5Fh1UJM1n2vgraOc1hcpYJJCcIXmSYMz+gFD7qM"),
        ("", "write", "v1_PMHawjCHeyEw/yn3INn6xVDyaOj7aK1eGgdvu6peUtA"),
    ],
)
def test_signatures_are_those_of_the_public_clients(
    path: str, operation: str, signature: str
) -> None:
    assert access.sign(path, operation, "", "tok-1", None) == signature


def test_an_expiration_changes_the_signature() -> None:
    assert access.sign("x", "read", "", "t", 1) != access.sign("x", "read", "", "t", None)


def test_new_credentials_have_the_forms_that_clients_check() -> None:
    assert access.is_api_key(access.new_api_key())
    assert access.parse_sandbox_id(access.new_sandbox_id()).startswith("i")
    assert not access.is_api_key("sk_e2b_00")


@given(st.text())
def test_credentials_are_compared_whatever_they_hold(text: str) -> None:
    assert access.matches("secret", "secret")
    assert access.matches(text, "secret") == (text == "secret")


def test_random_ids_have_their_length_and_every_character() -> None:
    found = [access.random_id(20) for _ in range(200)]

    assert {len(text) for text in found} == {20}
    assert set("".join(found)) == set(string.ascii_lowercase + string.digits)
    assert len(set(found)) == len(found)
