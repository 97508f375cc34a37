"""Several connections of one server: their states, the default, and what stays open."""

from __future__ import annotations

import pytest
from traitlets import TraitError

from sbx_jupyter.server.extension import SbxExtension
from tests.engine_process import engine_process
from tests.waiting import async_until

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def other():
    with engine_process("server-other") as running:
        yield running


@pytest.fixture
def two_engines(extension_settings, with_engine, other, tmp_path):
    """The local engine, another one, and one that is not there."""
    key_file = tmp_path / "other-key"
    key_file.write_text(other.connection.api_key)
    key_file.chmod(0o600)
    url = other.connection.url
    extension_settings["connections"] = {
        "other": {"api_url": url, "sandbox_url": url, "api_key_file": str(key_file)},
        "gone": {"api_url": NOBODY, "api_key": "e2b_00"},
    }
    return key_file


async def states(api):
    _, body = await api("GET", "connections")
    return {each["name"]: each["state"] for each in body["connections"]}


@pytest.mark.usefixtures("two_engines")
async def test_a_sandbox_stays_in_use_after_the_default_changed(api):
    _, local = await api("POST", "sandboxes", body={"timeout": 60})
    status, body = await api("PATCH", "connections", body={"default": "other"})
    assert (status, body["default"]) == (200, "other")
    _, remote = await api("POST", "sandboxes", body={"timeout": 60})

    _, listed = await api("GET", "sandboxes")
    _, of_local = await api("GET", "sandboxes", params={"connection": "local"})

    assert [each["sandboxID"] for each in listed["sandboxes"]] == [remote["sandboxID"]]
    assert local["sandboxID"] in [each["sandboxID"] for each in of_local["sandboxes"]]
    for view in (local, remote):
        assert (await api("GET", "sandboxes", view["sandboxID"], "metrics"))[0] == 200
        assert (await api("DELETE", "sandboxes", view["sandboxID"]))[0] == 204


@pytest.mark.usefixtures("two_engines")
async def test_each_connection_says_its_state_and_the_remedy(api):
    wanted = {"local": "stopped", "other": "ready", "gone": "unreachable"}

    async def told():
        return await states(api) == wanted

    await async_until(told)
    _, body = await api("GET", "connections")
    gone = next(each for each in body["connections"] if each["name"] == "gone")
    assert "c.SbxExtension.connections" in str(gone["remedy"]) or "api_url" in gone["remedy"]
    assert "e2b_" not in str(body)


async def test_a_key_file_that_others_may_read_is_told_as_unauthorized(two_engines, api):
    two_engines.chmod(0o644)
    await api("PATCH", "connections", body={"default": "other"})

    status, body = await api("GET", "sandboxes")

    assert (status, body["code"]) == (502, "unauthenticated")
    assert "chmod 600" in body["message"]
    two_engines.chmod(0o600)
    assert (await api("GET", "sandboxes"))[0] == 200


@pytest.mark.parametrize("call", [("PATCH", {"default": "nowhere"}), ("GET", None)])
@pytest.mark.usefixtures("two_engines")
async def test_an_unknown_connection_is_not_found(api, call):
    method, body = call
    if body is None:
        status, answer = await api(method, "sandboxes", params={"connection": "nowhere"})
    else:
        status, answer = await api(method, "connections", body=body)

    assert (status, answer["code"]) == (404, "not_found")
    assert "nowhere" in answer["message"]


def test_a_default_that_is_not_configured_stops_the_start():
    app = SbxExtension(default_connection="nowhere")

    with pytest.raises(TraitError, match=r"default_connection.*nowhere"):
        app.initialize_settings()


def test_a_malformed_connection_stops_the_start():
    with pytest.raises(TraitError, match=r"c\.SbxExtension\.connections.*no setting"):
        SbxExtension(connections={"lab": {"api_url": "https://x.example", "kye": "k"}})
