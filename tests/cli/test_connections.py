"""The connection that a command uses: named, from the environment, from Jupyter's configuration."""

from __future__ import annotations

import argparse
import json
import os

import pytest

from sbx_jupyter.cli import connections
from sbx_jupyter.cli.main import main
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.client.connection.environment import NAMES, client_environment
from sbx_jupyter.errors import NotFoundError, UnavailableError


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No deployment in the environment, no engine, and a configuration directory to write in."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SBX_DATA_DIR", str(tmp_path / "no-engine"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "")
    return tmp_path


@pytest.fixture
def configuration(bare):
    """Writes ``c.SbxExtension`` where the Jupyter server reads it."""

    def write(**settings):
        content = json.dumps({"SbxExtension": settings})
        (bare / "jupyter_server_config.json").write_text(content)

    return write


def options(connection=None, data_dir=None):
    return argparse.Namespace(connection=connection, data_dir=data_dir)


LAB = {"api_url": "https://lab.example/", "api_key": "e2b_ab"}


def test_a_connection_of_jupyters_configuration_is_used_by_name(configuration):
    configuration(connections={"lab": LAB})

    assert connections.resolve(options("lab")).api_url == "https://lab.example"
    with pytest.raises(UnavailableError, match="no engine"):
        connections.resolve(options())


def test_the_default_of_jupyters_configuration_is_used(configuration):
    configuration(connections={"lab": LAB}, default_connection="lab")

    assert connections.resolve(options()).api_url == "https://lab.example"
    with pytest.raises(UnavailableError, match="no engine"):
        connections.resolve(options("local"))


def test_the_older_settings_are_a_connection_too(configuration, monkeypatch):
    configuration(api_url="https://old.example/")
    monkeypatch.setenv("E2B_API_KEY", "e2b_cd")

    config = connections.resolve(options("remote"))

    assert (config.api_url, config.api_key) == ("https://old.example", "e2b_cd")


def test_the_environment_goes_before_the_configuration(configuration, monkeypatch):
    configuration(connections={"lab": LAB}, default_connection="lab")
    monkeypatch.setenv("E2B_API_URL", "https://shell.example")
    monkeypatch.setenv("E2B_API_KEY", "e2b_cd")

    assert connections.resolve(options()).api_url == "https://shell.example"
    assert connections.resolve(options("lab")).api_url == "https://lab.example"


def test_an_unknown_name_is_told_with_those_that_exist(configuration):
    configuration(connections={"lab": LAB})

    with pytest.raises(NotFoundError, match="local, lab"):
        connections.resolve(options("nowhere"))


def test_env_prints_what_leads_clients_to_a_named_connection(configuration, capsys):
    configuration(connections={"lab": LAB | {"domain": "lab.example"}})

    assert main(["env", "--connection", "lab"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "export E2B_API_URL=https://lab.example" in lines
    assert "export E2B_DOMAIN=lab.example" in lines
    assert "export E2B_API_KEY=e2b_ab" in lines


def test_list_uses_the_engine_that_the_environment_names(shared_engine, monkeypatch, capsys):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    for name, value in client_environment(config, {}).items():
        monkeypatch.setenv(name, value)

    assert main(["list", "--json"]) == 0

    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_the_local_engine_is_kept_away_from_proxies(shared_engine, monkeypatch):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)

    variables = client_environment(config, {"NO_PROXY": "intranet"})

    assert variables["NO_PROXY"].split(",") == ["intranet", "127.0.0.1", "localhost", ".localhost"]
    assert variables["E2B_DOMAIN"] == f"localhost:{shared_engine.port}"
    assert set(NAMES) <= set(variables)
    assert not set(NAMES) & set(os.environ)
