"""Every endpoint of templates (T1 to T19) and of snapshots, with each status that it declares."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.checks import check_error

from .conftest import Api, messages, run

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "00000000000000000000"
NO_BUILD = "00000000-0000-4000-8000-000000000000"
HASH = "c" * 64

ENDPOINTS = [
    ("POST", "/v3/templates"),
    ("GET", f"/templates/base/files/{HASH}"),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}"),
    ("GET", f"/templates/base/builds/{NO_BUILD}/status"),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs"),
    ("GET", "/templates/aliases/base"),
    ("POST", "/templates/tags"),
    ("DELETE", "/templates/tags"),
    ("GET", "/templates/base/tags"),
    ("GET", "/templates/base/tags/count"),
    ("GET", "/templates/base/tags/exists"),
    ("GET", "/templates/base/tags/groups"),
    ("GET", "/templates/base/tags/default/assignments"),
    ("GET", "/templates"),
    ("GET", "/v2/templates"),
    ("GET", "/default-templates"),
    ("GET", "/templates/base"),
    ("DELETE", "/templates/base"),
    ("PATCH", "/v2/templates/base"),
    ("PATCH", "/templates/base"),
    ("POST", "/templates"),
    ("POST", "/templates/base"),
    ("POST", "/v2/templates"),
    ("POST", f"/templates/base/builds/{NO_BUILD}"),
    ("POST", "/sandboxes/iabcdefghij0123456789/snapshots"),
    ("GET", "/snapshots"),
    ("PUT", "/engine/images/any"),
]


@pytest.fixture(scope="module")
def nobody(engine: Any) -> Iterator[httpx.Client]:
    """A client without the key."""
    with httpx.Client(base_url=engine.connection.url, trust_env=False, timeout=30) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_nobody_is_served_without_the_key(nobody: httpx.Client, method: str, path: str) -> None:
    for headers in ({}, {"X-API-Key": "e2b_" + "0" * 40}):
        answer = nobody.request(method, path, headers=headers, json={})
        check_error(answer, 401)


REFUSED = [
    # T1: see test_requests.py for the values
    ("POST", "/v3/templates", "no json", 400),
    ("POST", "/v3/templates", [], 400),
    ("POST", "/v3/templates", {"name": "base"}, 409),
    # T2
    ("GET", f"/templates/base/files/{HASH[:-1]}", None, 400),
    ("GET", f"/templates/base/files/{HASH.upper()}", None, 400),
    ("GET", f"/templates/{NOBODY}/files/{HASH}", None, 404),
    ("GET", f"/templates/No%20Name/files/{HASH}", None, 400),
    # T3
    ("PUT", "/template-uploads/forged", "x", 403),
    # T4
    ("POST", f"/v2/templates/{NOBODY}/builds/{NO_BUILD}", {"fromTemplate": "base"}, 404),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}", {"fromTemplate": "base"}, 404),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}", {}, 400),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}", {"steps": 5}, 400),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}",
     {"fromTemplate": "base", "fromImage": "x"}, 400),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}",
     {"fromTemplate": "base", "fromImageRegistry": {"type": "registry"}}, 400),
    ("POST", f"/v2/templates/base/builds/{NO_BUILD}",
     {"fromImage": "x", "fromImageRegistry": {"type": "other"}}, 400),
    # T5 and T6
    ("GET", f"/templates/base/builds/{NO_BUILD}/status", None, 404),
    ("GET", f"/templates/{NOBODY}/builds/{NO_BUILD}/status", None, 404),
    ("GET", f"/templates/base/builds/{NO_BUILD}/status?logsOffset=-1", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/status?logsOffset=x", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/status?limit=101", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/status?level=loud", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs", None, 404),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs?cursor=-1", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs?limit=101", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs?direction=up", None, 400),
    ("GET", f"/templates/base/builds/{NO_BUILD}/logs?source=none", None, 400),
    # T7
    ("GET", "/templates/aliases/nothing-here", None, 404),
    ("GET", "/templates/aliases/base%3Aother", None, 404),
    ("GET", "/templates/aliases/other%2Fbase", None, 404),
    ("GET", "/templates/aliases/a%20b", None, 400),
    # T8 and T9: see test_requests.py for the values
    ("POST", "/templates/tags", {"target": "base"}, 400),
    ("DELETE", "/templates/tags", {"tags": ["x"]}, 400),
    # T10 and T11
    ("GET", "/templates/nothing-here/tags", None, 404),
    ("GET", "/templates/nothing-here/tags/count", None, 404),
    ("GET", "/templates/nothing-here/tags/exists?tag=x", None, 404),
    ("GET", "/templates/base/tags/exists", None, 400),
    ("GET", "/templates/base/tags/exists?tag=a%20b", None, 400),
    ("GET", "/templates/nothing-here/tags/groups", None, 404),
    ("GET", "/templates/base/tags/groups?sort=any", None, 400),
    ("GET", "/templates/base/tags/groups?tagsLimit=0", None, 400),
    ("GET", "/templates/base/tags/groups?assignmentLimit=101", None, 400),
    ("GET", "/templates/base/tags/groups?tagsCursor=!", None, 400),
    ("GET", "/templates/nothing-here/tags/x/assignments", None, 404),
    ("GET", "/templates/base/tags/a%20b/assignments", None, 400),
    ("GET", "/templates/base/tags/x/assignments?limit=0", None, 400),
    ("GET", "/templates/base/tags/x/assignments?cursor=LTE=", None, 400),
    # T13
    ("GET", "/v2/templates?limit=0", None, 400),
    ("GET", "/v2/templates?limit=101", None, 400),
    ("GET", "/v2/templates?nextToken=any", None, 400),
    # T15
    ("GET", f"/templates/{NOBODY}", None, 404),
    ("GET", "/templates/base?limit=0", None, 400),
    ("GET", "/templates/base?nextToken=any", None, 400),
    # T16
    ("DELETE", f"/templates/{NOBODY}", None, 404),
    ("DELETE", "/templates/base", None, 400),
    # T17 and T18
    ("PATCH", f"/v2/templates/{NOBODY}", {"public": True}, 404),
    ("PATCH", "/v2/templates/base", {"public": False}, 403),
    ("PATCH", "/v2/templates/base", {"public": "yes"}, 400),
    ("PATCH", f"/templates/{NOBODY}", {"public": True}, 404),
    ("PATCH", "/templates/base", {"public": True}, 403),
    # T19
    ("POST", "/templates", {}, 400),
    ("POST", "/templates", {"dockerfile": "RUN no"}, 400),
    ("POST", "/templates", {"dockerfile": "FROM a\nCOPY b c"}, 400),
    ("POST", "/templates", {"dockerfile": "FROM a", "cpuCount": 3}, 400),
    ("POST", "/templates", {"dockerfile": "FROM a", "alias": "a b"}, 400),
    ("POST", "/templates", {"dockerfile": "FROM a", "alias": "base"}, 409),
    ("POST", f"/templates/{NOBODY}", {"dockerfile": "FROM a"}, 404),
    ("POST", "/templates/base", {"dockerfile": "FROM a"}, 409),
    ("POST", "/v2/templates", {}, 400),
    ("POST", "/v2/templates", {"alias": "base"}, 409),
    ("POST", "/v2/templates", {"alias": "a", "memoryMB": 1}, 400),
    ("POST", f"/templates/base/builds/{NO_BUILD}", None, 404),
    # snapshots (S19, S20)
    ("POST", "/sandboxes/iabcdefghij0123456789/snapshots", {}, 404),
    ("POST", "/sandboxes/NO_ID/snapshots", {}, 400),
    ("GET", "/snapshots?limit=0", None, 400),
    ("GET", "/snapshots?limit=101", None, 400),
    ("GET", "/snapshots?nextToken=any", None, 400),
    ("GET", "/snapshots?name=a%20b", None, 400),
    ("DELETE", "/templates/local%2Fno-snapshot%3Adefault", None, 404),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED)
def test_a_request_that_cannot_be_met_is_answered_by_its_status(
    api: Api, method: str, path: str, body: Any, status: int
) -> None:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    answer = api.client.request(method, path, content=None if body is None else content)
    check_error(answer, status)


def test_a_snapshot_of_one_sandbox_is_named_listed_used_and_removed(api: Api) -> None:
    made = api.client.post("/v2/sandboxes", json={"templateID": "base"}).json()
    path = f"/sandboxes/{made['sandboxID']}/snapshots"
    assert api.client.post(path, json={"name": "other/x"}).status_code == 400
    assert api.client.post(path, json={"name": "a b"}).status_code == 400
    named = api.client.post(path, json={"name": "Kept:One"})
    assert (named.status_code, named.json()) == (
        201, {"snapshotID": "local/kept:one", "names": ["local/kept:one"]},
    )  # fmt: skip
    unnamed = api.client.post(path, json={}).json()
    assert unnamed["names"] == []
    assert unnamed["snapshotID"].endswith(":default")
    again = api.client.post(path, json={"name": "kept"}).json()
    assert again["snapshotID"] == "local/kept:default"

    def listed(**query: str) -> list[str]:
        answer = api.client.get("/snapshots", params=query)
        assert answer.status_code == 200, answer.text
        return [item["snapshotID"] for item in answer.json()]

    assert {"local/kept:one", "local/kept:default"} <= set(listed(name="kept"))
    assert listed(name="kept:one") == ["local/kept:one"]
    assert listed(name="nothing-here") == []
    assert unnamed["snapshotID"] in listed(sandboxID=made["sandboxID"])
    page = api.client.get("/snapshots", params={"limit": 1, "sandboxID": made["sandboxID"]})
    assert len(page.json()) == 1
    token = page.headers["X-Next-Token"]
    assert page.json()[0]["snapshotID"] not in listed(nextToken=token, sandboxID=made["sandboxID"])
    copy = api.client.post("/v2/sandboxes", json={"templateID": "local/kept:one"}).json()
    used = api.client.delete("/templates/local%2Fkept%3Aone")
    assert used.status_code == 400, used.text
    for sandbox in (copy, made):
        assert api.client.delete(f"/sandboxes/{sandbox['sandboxID']}").status_code == 204
    assert api.client.post(path, json={}).status_code == 404
    assert api.client.delete("/templates/local%2Fkept%3Aone").status_code == 204
    assert listed(name="kept") == []


DOCKERFILE = """\
FROM e2bdev/base
ENV GREETING=hello
RUN echo "$GREETING" > /tmp/said
USER user
WORKDIR /srv
"""


def test_an_older_client_announces_and_starts_a_build_of_its_dockerfile(api: Api) -> None:
    body = {
        "dockerfile": DOCKERFILE, "alias": "older", "cpuCount": 1, "memoryMB": 256,
        "startCmd": "touch /tmp/started; sleep 60", "readyCmd": "test -e /tmp/started",
        "teamID": "any",
    }  # fmt: skip
    asked = api.client.post("/templates", json=body)
    assert asked.status_code == 202, asked.text
    first = asked.json()
    assert (first["aliases"], first["cpuCount"], first["memoryMB"]) == (["older"], 1, 256)
    assert first["buildStatus"] == "waiting"
    uuid.UUID(first["buildID"])
    path = f"/templates/{first['templateID']}/builds/{first['buildID']}"
    assert api.client.post(path).status_code == 202
    found = api.wait(first)
    assert found["status"] == "ready", found
    assert "Waiting for ready command: test -e /tmp/started" in messages(found)
    assert api.client.post(path).status_code == 400
    made = api.client.post("/v2/sandboxes", json={"templateID": "older"}).json()
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983",
               "X-Access-Token": made.get("envdAccessToken") or ""}  # fmt: skip
    said = api.client.get("/files", params={"path": "/tmp/said"}, headers=headers)
    assert said.text == "hello\n"
    api.client.delete(f"/sandboxes/{made['sandboxID']}")

    again = api.client.post(f"/templates/{first['templateID']}", json={"dockerfile": "FROM none:1"})
    assert again.status_code == 202, again.text
    second = again.json()
    assert second["templateID"] == first["templateID"]
    assert second["buildID"] != first["buildID"]
    # Started by the way of today, it is what that says.
    api.start(second, run("true"))
    assert api.wait(second)["status"] == "ready"


def test_an_older_client_may_leave_its_template_without_a_name(api: Api) -> None:
    asked = api.client.post("/templates", json={"dockerfile": DOCKERFILE}).json()
    assert (asked["aliases"], asked["names"]) == ([], [])
    path = f"/templates/{asked['templateID']}"
    assert api.client.post(f"{path}/builds/{asked['buildID']}").status_code == 202
    assert api.wait(asked)["status"] == "ready"
    assert api.client.get(path).json()["buildID"] == asked["buildID"]
    assert api.client.delete(path).status_code == 204


def test_an_announcement_without_a_dockerfile_is_started_by_the_way_of_today(api: Api) -> None:
    answer = api.client.post("/v2/templates", json={"alias": "between", "cpuCount": 1})
    assert answer.status_code == 202, answer.text
    asked = answer.json()
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    refused = api.client.post(path)
    assert (refused.status_code, refused.json()["message"]) == (
        400, "the build was not announced with a Dockerfile",
    )  # fmt: skip
    api.start(asked)
    assert api.wait(asked)["status"] == "ready"


def test_the_log_of_a_build_is_paged_by_time_and_level(api: Api) -> None:
    asked = api.request("paged")
    api.start(asked, run("echo out; echo err >&2"))
    whole = api.wait(asked)["logEntries"]
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}/logs"

    def page(**query: Any) -> list[dict[str, Any]]:
        answer = api.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["logs"]

    assert page() == whole
    assert page(direction="backward", limit=2) == whole[:-3:-1]
    assert [item["message"] for item in page(level="warn")] == ["[builder 1/1] [stderr]: err"]
    assert page(cursor=0, direction="forward", limit=1) == whole[:1]
    assert page(cursor=1 << 50) == []
    assert page(limit=0) == []
    offset = len(whole) - 2
    assert api.status(asked, logsOffset=offset)["logEntries"] == whole[offset:]
    assert api.status(asked, logsOffset=10**6)["logEntries"] == []
    assert api.status(asked, level="warn", limit=1)["logEntries"][0]["level"] == "warn"
