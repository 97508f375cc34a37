"""Another deployment behind ``c.SbxExtension.api_url``, and what is said when it is not there."""

from __future__ import annotations

import pytest
from traitlets import TraitError

from sbx_jupyter.server.extension import SbxExtension
from tests.engine_process import engine_process
from tests.waiting import async_until


@pytest.fixture(scope="module")
def remote():
    with engine_process("server-remote") as running:
        yield running


@pytest.fixture
def with_remote(request, extension_settings, remote):
    """Lets the server of this test use that engine as somebody else's deployment.

    A parameter changes the settings, as a person may get them wrong.
    """
    url = remote.connection.url
    extension_settings |= {"api_url": url, "sandbox_url": url, "api_key": remote.connection.api_key}
    extension_settings |= getattr(request, "param", {})


WRONG_KEY = "e2b_" + "0" * 40
NOBODY = "http://user:hidden@127.0.0.1:1"
"""No service is on that port: it needs root, and nobody has used it for decades."""


async def connection_in_state(api, state):
    """The server's information once the default connection has that state."""

    async def reached():
        _, info = await api("GET", "info")
        return info if info["connection"]["state"] == state else None

    return await async_until(reached)


@pytest.mark.usefixtures("with_remote")
async def test_a_remote_deployment_is_used_like_the_own_engine(api, remote):
    status, view = await api("POST", "sandboxes", body={"name": "far away"})
    assert status == 201
    one = ("sandboxes", view["sandboxID"])
    call = (*one, "rpc", "filesystem.Filesystem", "ListDir")
    assert (await api("POST", *call, body={"path": "/", "depth": 1}))[0] == 200
    _, info = await api("GET", "info")
    assert info["engine"] == {"state": "remote"}
    ready = await connection_in_state(api, "ready")
    assert (ready["connection"]["missing"], ready["connection"]["remedy"]) == ({}, None)
    assert info["host"] == remote.connection.url.partition("//")[2]
    assert (await api("DELETE", *one))[0] == 204


@pytest.mark.parametrize("with_remote", [{"api_key": WRONG_KEY}], indirect=True)
async def test_a_wrong_key_is_told_as_such_without_the_key(with_remote, api):
    status, body = await api("GET", "sandboxes")

    assert (status, body["code"]) == (502, "unauthenticated")
    assert WRONG_KEY not in str(body)
    info = await connection_in_state(api, "unauthorized")
    assert "c.SbxExtension.api_key" in info["connection"]["remedy"]
    assert WRONG_KEY not in str(info)


@pytest.mark.parametrize("with_remote", [{"api_key": ""}], indirect=True)
async def test_a_missing_key_is_told_with_the_settings_to_make(with_remote, api, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    status, body = await api("GET", "sandboxes")

    assert (status, body["code"]) == (502, "unauthenticated")
    assert "E2B_API_KEY" in body["message"]
    await connection_in_state(api, "unauthorized")


@pytest.mark.parametrize("with_remote", [{"api_url": NOBODY}], indirect=True)
async def test_a_deployment_that_is_down_is_told_without_its_password(with_remote, api):
    status, body = await api("GET", "sandboxes")
    _, info = await api("GET", "info")

    assert (status, body["code"]) == (503, "unavailable")
    assert info["engine"]["state"] == "remote"
    assert info["host"] == "127.0.0.1:1"
    assert "hidden" not in str(body) + str(info)
    info = await connection_in_state(api, "unreachable")
    assert "api_url" in info["connection"]["remedy"]
    assert "hidden" not in str(info)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_authority_file_that_cannot_be_used_is_refused(tmp_path, content):
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content)

    with pytest.raises(TraitError, match=r"c\.SbxExtension\.ca_file.*authority\.pem"):
        SbxExtension(ca_file=str(path))
