"""Requests for new sandboxes: what is refused before anything is made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sbx_jupyter.engine.sandboxes.admission import check_request, check_request_network, is_secured
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import NewSandbox


def request(**fields: Any) -> NewSandbox:
    return msgspec.convert({"templateID": "base", **fields}, NewSandbox)


def check(**fields: Any) -> int:
    return check_request(request(**fields), version=2, max_timeout=86400)


def test_the_default_timeout_depends_on_the_version():
    assert check_request(request(), version=2, max_timeout=86400) == 300
    assert check_request(request(), version=1, max_timeout=86400) == 15


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_must_be_positive(timeout: int):
    with pytest.raises(InvalidArgumentError, match="Timeout must be greater than 0"):
        check(timeout=timeout)


def test_a_timeout_has_a_maximum():
    assert check(timeout=86400) == 86400
    with pytest.raises(InvalidArgumentError, match="Timeout cannot be greater than 24 hours"):
        check(timeout=86401)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"autoPauseMemory": False}, "autoPause: true"),
        (
            {"autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}},
            "autoResume",
        ),
        ({"envVars": {"A=B": "x"}}, "envVars"),
        ({"envVars": {"": "x"}}, "envVars"),
        ({"envVars": {"A": "x\0y"}}, "envVars"),
        ({"iam": {}}, "tokens"),
        ({"iam": {"tokens": {f"t{n}": {} for n in range(6)}}}, "at most 5"),
        ({"iam": {"tokens": {"a": {"tokenType": "JWT-SVID"}}}}, "audience"),
        ({"iam": {"tokens": {"a": {"audience": "x", "tokenType": "other"}}}}, "JWT-SVID"),
    ],
)
def test_an_impossible_request_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        check(**fields)


def test_a_sandbox_of_version_two_is_always_secured():
    assert is_secured(request(), 2)
    assert not is_secured(request(), 1)
    assert is_secured(request(secure=True), 1)


def test_a_private_sandbox_must_be_secured():
    private = request(network={"allowPublicTraffic": False})

    with pytest.raises(InvalidArgumentError, match="secure"):
        check_request_network(private, secured=False)

    assert check_request_network(private, secured=True) == private.network


def test_names_may_be_allowed_where_the_internet_is_denied():
    asked = request(allow_internet_access=False, network={"allowOut": ["example.com"]})

    assert check_request_network(asked, secured=True) == asked.network
    with pytest.raises(InvalidArgumentError, match="ALL_TRAFFIC"):
        check_request_network(request(network={"allowOut": ["example.com"]}), secured=True)
