"""Connections by name: where their key comes from, and what is refused."""

from __future__ import annotations

import os

import pytest

from sbx_jupyter.client.connection.named_connections import (
    collect_connections,
    parse_connections,
    read_key_file,
)
from sbx_jupyter.errors import InvalidArgumentError, UnauthenticatedError

KEY = "e2b_" + "1" * 40


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


def test_a_private_key_file_is_read(key_file):
    connections = parse_connections(
        {"lab": {"api_url": "https://lab.example/", "api_key_file": str(key_file)}}
    )

    config = connections["lab"].resolve()

    assert (config.api_url, config.api_key) == ("https://lab.example", KEY)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_key_file_that_others_may_use_is_refused_with_the_remedy(key_file, mode):
    key_file.chmod(mode)

    with pytest.raises(UnauthenticatedError, match="chmod 600") as caught:
        read_key_file(key_file)

    assert KEY not in str(caught.value)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_key_file_of_another_user_is_refused(key_file):
    os.chown(key_file, 4711, 4711)

    with pytest.raises(UnauthenticatedError, match="another user"):
        read_key_file(key_file)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", b"x" * 5000])
def test_a_key_file_without_one_key_is_refused(key_file, content):
    key_file.write_bytes(content)

    with pytest.raises(UnauthenticatedError, match="one API key"):
        read_key_file(key_file)


def test_a_missing_key_file_is_named(tmp_path):
    with pytest.raises(UnauthenticatedError, match="nowhere"):
        read_key_file(tmp_path / "nowhere")


def test_a_key_may_come_from_a_variable(monkeypatch):
    monkeypatch.setenv("LAB_KEY", KEY)
    given = {"lab": {"domain": "lab.example", "api_key_env": "LAB_KEY"}}

    config = parse_connections(given)["lab"].resolve()

    assert (config.api_url, config.api_key) == ("https://api.lab.example", KEY)


def test_a_missing_key_is_named_with_the_connection(monkeypatch):
    monkeypatch.delenv("LAB_KEY", raising=False)
    given = {"lab": {"domain": "lab.example", "api_key_env": "LAB_KEY"}}

    with pytest.raises(UnauthenticatedError, match="LAB_KEY"):
        parse_connections(given)["lab"].resolve()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"local": {"api_url": "https://x.example"}}, "this machine"),
        ({"lab": {}}, "api_url or a domain"),
        ({"lab": {"api_url": "ftp://x.example"}}, "not an http or https address"),
        ({"lab": {"api_url": "https://x.example", "key": "k"}}, "no setting 'key'"),
        ({"": {"api_url": "https://x.example"}}, "name of a connection"),
    ],
)
def test_a_malformed_connection_is_refused(given, said):
    with pytest.raises(InvalidArgumentError, match=said):
        parse_connections(given)


def test_a_key_is_not_printed():
    connections = parse_connections({"lab": {"api_url": "https://x.example", "api_key": KEY}})

    assert KEY not in repr(connections)


@pytest.mark.parametrize(
    ("api_url", "connections", "offer_local", "names"),
    [
        ("", {}, True, ["local"]),
        ("", {}, False, ["local"]),
        ("https://x.example", {}, True, ["remote", "local"]),
        ("https://x.example", {}, False, ["remote"]),
        ("", {"lab": {"domain": "lab.example"}}, True, ["local", "lab"]),
        ("", {"lab": {"domain": "lab.example"}}, False, ["lab"]),
    ],
)
def test_the_connections_of_a_configuration_have_their_default_first(
    api_url, connections, offer_local, names
):
    found = collect_connections({"api_url": api_url}, connections, offer_local=offer_local)

    assert list(found) == names
