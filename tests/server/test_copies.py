"""Names, snapshots, forks and templates, against a real engine."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("with_engine")

PROOF = {"path": "/home/user/proof.txt"}


@pytest.fixture
def put(api):
    async def write(sandbox_id, text):
        headers = {"Content-Type": "application/octet-stream"}
        route = ("sandboxes", sandbox_id, "files")
        status, _ = await api("POST", *route, params=PROOF, body=text, headers=headers)
        assert status == 200

    return write


async def proof_of(api, sandbox_id):
    return (await api("GET", "sandboxes", sandbox_id, "files", params=PROOF))[1]


async def test_a_sandbox_gets_another_name_and_loses_it(api, sandbox):
    status, view = await api("PATCH", "sandboxes", sandbox, body={"name": " <b>new</b> "})
    assert (status, view["metadata"]) == (200, {"name": "<b>new</b>"})

    _, view = await api("PATCH", "sandboxes", sandbox, body={"name": ""})
    assert not view.get("metadata")


async def test_a_snapshot_is_offered_made_from_and_removed(api, sandbox, put):
    await put(sandbox, b"kept")
    status, snapshot = await api("POST", "sandboxes", sandbox, "snapshots", body={"name": "kept"})
    assert status == 201
    _, offered = await api("GET", "templates")
    found = [item for item in offered["templates"] if item["kind"] == "snapshot"]
    assert [item["templateID"] for item in found] == [snapshot["snapshotID"]]
    assert "local/base" in [name for item in offered["templates"] for name in item["names"]]

    _, copy = await api("POST", "sandboxes", body={"template": snapshot["snapshotID"]})
    assert await proof_of(api, copy["sandboxID"]) == b"kept"
    await api("DELETE", "sandboxes", copy["sandboxID"])

    # By its name, since the client of these tests cannot send the slash of an id.
    assert (await api("DELETE", "templates", "kept"))[0] == 204
    status, body = await api("DELETE", "templates", "kept")
    assert (status, body["code"]) == (404, "not_found")


async def test_a_fork_has_the_files_and_a_name_of_its_own(api, sandbox, put):
    await put(sandbox, b"before")
    status, copy = await api("POST", "sandboxes", sandbox, "fork", body={"name": "copy"})
    await put(sandbox, b"after")

    assert status == 201
    assert copy["metadata"]["name"] == "copy"
    assert await proof_of(api, copy["sandboxID"]) == b"before"
    await api("DELETE", "sandboxes", copy["sandboxID"])


async def test_a_paused_sandbox_cannot_be_forked_and_says_why(api, sandbox):
    await api("POST", "sandboxes", sandbox, "pause")
    status, body = await api("POST", "sandboxes", sandbox, "fork")

    assert status == 409
    assert "resume it to fork it" in body["message"]
