"""Templates and snapshots through the Jupyter server: build, follow, rename, remove."""

from __future__ import annotations

import json

import pytest

from tests.waiting import async_until

DOCKERFILE = "FROM python:3.12\nRUN echo built > /made && sleep {seconds}\n"


async def begin(api, name, seconds):
    text = DOCKERFILE.format(seconds=seconds)
    status, begun = await api(
        "POST", "templates", body={"name": name, "dockerfile": text, "template": "base"}
    )
    if "isolation by namespaces" in str(begun):
        pytest.skip("this machine builds no templates")
    assert status == 202, begun
    return begun["templateID"], begun["buildID"]


async def follow(api, template_id, build_id):
    """All entries of a log and the last answer, read with a cursor."""
    entries, offset = [], 0
    while True:
        _, body = await api(
            "GET", "templates", template_id, "builds", build_id,
            params={"offset": str(offset), "wait": "20"},
        )  # fmt: skip
        entries += body["logs"]
        offset = body["next"]
        if body["status"] in ("ready", "error") and not body["logs"]:
            return entries, body


async def test_a_template_is_built_renamed_and_removed_with_its_sandboxes(
    with_engine, api, jp_fetch
):
    template_id, build_id = await begin(api, "through-jupyter", 0)
    entries, last = await follow(api, template_id, build_id)
    assert (last["status"], last["reason"]) == ("ready", None)
    assert any("RUN" in entry["message"] for entry in entries)

    # by events, from where another page had read
    answer = await jp_fetch(
        "sbx", "api", "templates", template_id, "builds", build_id, "logs",
        headers={"Last-Event-ID": str(len(entries) - 1)},
    )  # fmt: skip
    text = answer.body.decode()
    assert text.count("event: log\n") == 1
    assert json.loads(text.rstrip().rpartition("data: ")[2])["status"] == "ready"

    _, listed = await api("GET", "templates", params={"sizes": "true"})
    [shown] = [each for each in listed["templates"] if each["templateID"] == template_id]
    assert shown["kind"] == "template"
    assert shown["ownBytes"] >= 0
    assert [each["isStock"] for each in listed["templates"]].count(True) == 2

    renamed, body = await api("PATCH", "templates", template_id, body={"name": "renamed"})
    assert (renamed, body["names"]) == (200, ["local/renamed"])
    taken, _ = await api("PATCH", "templates", template_id, body={"name": "base"})
    assert taken == 409

    _, made = await api("POST", "sandboxes", body={"template": "renamed", "timeout": 60})
    refused, _ = await api("DELETE", "templates", template_id)
    removed, _ = await api("DELETE", "templates", template_id, params={"dependants": "true"})
    gone, _ = await api("GET", "sandboxes", made["sandboxID"])
    assert (refused, removed, gone) == (400, 204, 404)


async def test_a_removal_that_is_refused_ends_no_sandbox(sandbox, api):
    refused, _ = await api("DELETE", "templates", "base", params={"dependants": "true"})
    kept, body = await api("GET", "sandboxes", sandbox)

    assert 400 <= refused < 500
    assert (kept, body["state"]) == (200, "running")


async def test_a_build_is_cancelled(with_engine, api):
    template_id, build_id = await begin(api, "to-cancel", 600)

    async def runs():
        _, body = await api("GET", "templates", template_id, "builds", build_id)
        return any("RUN" in entry["message"] for entry in body["logs"])

    await async_until(runs)
    status, _ = await api("DELETE", "templates", template_id, "builds", build_id)
    _, last = await follow(api, template_id, build_id)
    again, _ = await api("DELETE", "templates", template_id, "builds", build_id)
    await api("DELETE", "templates", template_id)

    assert (status, again) == (204, 409)
    assert last["status"] == "error"
    assert "cancelled" in last["reason"]["message"]


async def test_a_dockerfile_with_a_mistake_is_refused_with_its_line(with_engine, api):
    status, body = await api(
        "POST", "templates", body={"name": "wrong", "dockerfile": "FROM x\nNOSUCH y\n"}
    )

    assert (status, body["code"]) == (400, "invalid_argument")
    assert "2" in body["message"]


async def test_a_snapshot_is_listed_with_where_it_came_from(sandbox, api):
    _, made = await api("POST", "sandboxes", sandbox, "snapshots", body={"name": "kept-here"})
    _, listed = await api("GET", "snapshots")
    [shown] = [each for each in listed["snapshots"] if each["templateID"] == made["snapshotID"]]
    removed, _ = await api("DELETE", "templates", made["snapshotID"].rpartition("/")[2])

    assert shown["kind"] == "snapshot"
    assert shown["sourceSandboxID"] == sandbox
    assert shown["sandboxes"] == []
    assert shown["createdAt"]
    assert removed == 204
