"""What the platform API answers about templates and builds, status by status (interface 1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.checks import check_error
from tests.engine_process import start_engine
from tests.waiting import PATIENCE

from .conftest import Api, messages, run

UNKNOWN_BUILD = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "Name is required"),
        ({"name": "  "}, "Name is required"),
        ({"name": "x" * 129}, "at most 128"),
        ({"name": "Bad name!"}, "Invalid template reference"),
        ({"name": "other/x"}, "namespace 'other' must match your team"),
        ({"name": "x", "tags": ["no good"]}, "Invalid tag"),
        ({"name": "x", "tags": [UNKNOWN_BUILD]}, "Invalid tag"),
        ({"name": "x", "cpuCount": 0}, "CPU count must be 1 or an even number"),
        ({"name": "x", "cpuCount": 3}, "CPU count must be 1 or an even number"),
        ({"name": "x", "cpuCount": 34}, "CPU count must be at most 32"),
        ({"name": "x", "memoryMB": 64}, "Memory must be at least 128 MiB"),
        ({"name": "x", "memoryMB": 513}, "Memory must be divisible by 2"),
        ({"name": "x", "minFreeDiskMb": -1}, "minFreeDiskMb"),
        ({"name": 5}, "validation error:"),
    ],
)
def test_a_build_request_that_cannot_be_met_is_refused(api: Api, body: dict, text: str) -> None:
    check_error(api.client.post("/v3/templates", json=body), 400, text)


def test_the_name_of_a_stock_template_cannot_be_taken(api: Api) -> None:
    assert api.client.post("/v3/templates", json={"name": "base"}).status_code == 409


def test_a_second_request_for_a_name_is_a_build_of_the_same_template(api: Api) -> None:
    first = api.request("twice:v1", tags=["v1", "v2"])
    second = api.request("Twice")
    assert first["templateID"] == second["templateID"]
    assert first["buildID"] != second["buildID"]
    assert first["tags"] == ["v1", "v2"]
    assert second["tags"] == ["default"]
    assert second["names"] == ["local/twice"]
    assert second["aliases"] == ["twice"]
    waiting = api.status(second)
    assert (waiting["status"], waiting["logs"], waiting["logEntries"]) == ("waiting", [], [])


def test_an_upload_link_needs_a_hash_and_a_template(api: Api) -> None:
    asked = api.request("uploads")
    bad = api.client.get(f"/templates/{asked['templateID']}/files/XYZ")
    assert (bad.status_code, bad.json()["message"]) == (400, "Invalid files hash")
    assert api.client.get(f"/templates/unknown1/files/{'a' * 64}").status_code == 404


def test_an_upload_is_there_once_it_is_whole(api: Api) -> None:
    asked = api.request("uploads")
    path = f"/templates/{asked['templateID']}/files/{'b' * 64}"
    first = api.client.get(path).json()
    assert first["present"] is False
    forged = first["url"][:-2] + ("AA" if not first["url"].endswith("AA") else "BB")
    assert httpx.put(forged, content=b"x", trust_env=False, timeout=PATIENCE).status_code == 403
    assert (
        httpx.put(first["url"], content=b"x", trust_env=False, timeout=PATIENCE).status_code == 200
    )
    assert api.client.get(path).json()["present"] is True


def test_a_build_starts_once_and_only_if_it_is_known(api: Api) -> None:
    asked = api.request("once")
    path = f"/v2/templates/{asked['templateID']}/builds/"
    body = {"fromTemplate": "base"}
    assert api.client.post(path + UNKNOWN_BUILD, json=body).status_code == 404
    assert api.client.post(path + asked["buildID"], json={}).status_code == 400
    both = {"fromTemplate": "base", "fromImage": "x"}
    assert api.client.post(path + asked["buildID"], json=both).status_code == 400
    api.start(asked)
    again = api.client.post(path + asked["buildID"], json=body)
    assert (again.status_code, again.json()["message"]) == (400, "build is not in waiting state")
    assert api.wait(asked)["status"] == "ready"
    status = f"/templates/{asked['templateID']}/builds/{UNKNOWN_BUILD}/status"
    assert api.client.get(status).status_code == 404


def test_log_entries_keep_their_index_and_come_in_pages(api: Api) -> None:
    asked = api.request("pages")
    api.start(asked, run("seq 1 250; echo problem >&2"))
    whole = api.wait(asked)["logEntries"]
    assert len(whole) > 250
    assert api.status(asked, logsOffset=120, limit=7)["logEntries"] == whole[120:127]
    assert api.status(asked, logsOffset=len(whole))["logEntries"] == []
    warned = api.status(asked, level="warn")["logEntries"]
    assert [entry["message"] for entry in warned] == ["[builder 1/1] [stderr]: problem"]
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    assert api.client.get(path + "/status", params={"limit": 101}).status_code == 400
    assert api.client.get(path + "/status", params={"logsOffset": -1}).status_code == 400
    logs = api.client.get(path + "/logs", params={"direction": "backward", "limit": 3}).json()
    assert logs["logs"] == whole[::-1][:3]


def test_a_failed_step_is_named_with_its_reason(api: Api) -> None:
    found = api.build("fails", run("true"), run("echo whoops >&2; exit 3"))
    assert found["status"] == "error"
    reason = found["reason"]
    assert reason["step"] == "2"
    assert reason["message"] == (
        "failed to run command 'echo whoops >&2; exit 3': command failed: exit status 3"
    )
    assert any("whoops" in entry["message"] for entry in reason["logEntries"])


def test_an_unknown_user_fails_the_step_in_the_known_words(api: Api) -> None:
    found = api.build("nobody-there", run("true", "ghost"))
    assert found["reason"]["message"] == (
        "failed to run command 'true': command failed: unauthenticated: invalid username: 'ghost'"
    )


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"type": "ENV", "args": ["ODD"]}, "ENV takes pairs"),
        ({"type": "ENV"}, "ENV takes pairs"),
        ({"type": "DANCE", "args": []}, "no step of the type 'DANCE'"),
        ({"type": "COPY", "args": ["a", "b"], "filesHash": "c" * 64}, "were not uploaded"),
        ({"type": "COPY", "args": ["a", "b"]}, "needs the hash"),
        ({"type": "USER", "args": ["a b"]}, "invalid username"),
        ({"type": "WORKDIR", "args": []}, "WORKDIR takes one path"),
    ],
)
def test_a_step_that_means_nothing_fails_the_build(api: Api, step: dict, text: str) -> None:
    found = api.build("senseless", step)
    assert (found["status"], found["reason"]["step"]) == ("error", "1")
    assert text in found["reason"]["message"]


def test_an_unknown_parent_fails_the_base(api: Api) -> None:
    found = api.build("orphan", fromTemplate="there-is-none")
    assert found["reason"] == found["reason"] | {
        "step": "base",
        "message": "template 'there-is-none' not found",
    }


def test_a_name_finds_its_template_when_it_has_the_tag(api: Api) -> None:
    asked = api.request("named:one")
    api.start(asked)
    api.wait(asked)
    found = api.client.get("/templates/aliases/local%2Fnamed%3Aone")
    assert (found.status_code, found.json()["templateID"]) == (200, asked["templateID"])
    assert api.client.get("/templates/aliases/named%3Atwo").status_code == 404
    assert api.client.get("/templates/aliases/nothing-here").status_code == 404
    assert api.client.get("/templates/aliases/no%20good").status_code == 400


def test_tags_are_put_on_builds_and_taken_away(api: Api) -> None:
    asked = api.request("tagged")
    api.start(asked)
    api.wait(asked)
    answer = api.client.post("/templates/tags", json={"target": "tagged", "tags": ["V2", "stable"]})
    assert answer.status_code == 201
    assert answer.json() == {"tags": ["v2", "stable"], "buildID": asked["buildID"]}
    tags = api.client.get("/templates/local%2Ftagged/tags").json()
    assert {tag["tag"] for tag in tags} == {"default", "v2", "stable"}
    base = f"/templates/{asked['templateID']}/tags"
    assert api.client.get(f"{base}/count").json() == {"total": 3}
    found = api.client.get(f"{base}/exists", params={"tag": "V2"}).json()
    assert found == {"exists": True, "normalizedTag": "v2"}
    groups = api.client.get(f"{base}/groups", params={"tagsLimit": 2, "sort": "name_asc"}).json()
    assert [group["tag"] for group in groups["tags"]] == ["default", "stable"]
    rest = api.client.get(
        f"{base}/groups",
        params={"sort": "name_asc", "tagsLimit": 2, "tagsCursor": groups["nextCursor"]},
    ).json()
    assert [group["tag"] for group in rest["tags"]] == ["v2"]
    assert rest["nextCursor"] is None
    data = api.client.get(f"{base}/v2/assignments").json()["data"]
    assert [item["buildID"] for item in data] == [asked["buildID"]]
    body = {"name": "tagged", "tags": ["v2"]}
    assert api.client.request("DELETE", "/templates/tags", json=body).status_code == 204
    assert api.client.post("/v2/sandboxes", json={"templateID": "tagged:v2"}).status_code == 404


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("POST", {"target": "base", "tags": []}, 400),
        ("POST", {"target": "base", "tags": ["x y"]}, 400),
        ("POST", {"target": "base", "tags": ["x"]}, 403),
        ("POST", {"target": "nothing-here", "tags": ["x"]}, 404),
        ("DELETE", {"name": "base", "tags": ["default"]}, 400),
        ("DELETE", {"name": "base:x", "tags": ["x"]}, 400),
        ("DELETE", {"name": "base", "tags": []}, 400),
        ("DELETE", {"name": "nothing-here", "tags": ["x"]}, 404),
    ],
)
def test_tags_that_cannot_be_changed_are_refused(
    api: Api, method: str, body: dict, status: int
) -> None:
    check_error(api.client.request(method, "/templates/tags", json=body), status)


def test_templates_are_listed_described_published_and_removed(api: Api) -> None:
    api.request("also-listed")
    built = api.request("listed", cpuCount=1, memoryMB=256)
    api.start(built)
    api.wait(built)
    api.request("listed")
    item = next(t for t in api.client.get("/templates").json() if "listed" in t["aliases"])
    assert (item["buildStatus"], item["buildCount"], item["cpuCount"]) == ("waiting", 2, 1)
    assert item["buildID"] == built["buildID"]
    assert item["createdBy"] is None
    page = api.client.get("/v2/templates", params={"limit": 1})
    assert len(page.json()) == 1
    more = api.client.get("/v2/templates", params={"nextToken": page.headers["X-Next-Token"]})
    assert page.json()[0] not in more.json()
    stock = api.client.get("/default-templates").json()
    assert {alias for t in stock for alias in t["aliases"]} >= {"base", "code-interpreter-v1"}
    path = f"/templates/{built['templateID']}"
    first = api.client.get(path, params={"limit": 1})
    assert [build["status"] for build in first.json()["builds"]] == ["waiting"]
    second = api.client.get(path, params={"nextToken": first.headers["X-Next-Token"]})
    assert [build["status"] for build in second.json()["builds"]] == ["ready"]
    assert api.client.patch(f"/v2{path}", json={"public": True}).json() == {
        "names": ["local/listed"]
    }
    assert api.client.get("/templates/aliases/listed").json()["public"] is True
    assert api.client.patch(path, json={"public": False}).status_code == 200
    assert api.client.patch("/v2/templates/nothing-here", json={}).status_code == 404
    made = api.client.post("/v2/sandboxes", json={"templateID": "listed"}).json()
    assert api.client.delete(path).status_code == 400
    assert api.client.delete(f"/sandboxes/{made['sandboxID']}").status_code == 204
    assert api.client.delete("/templates/local%2Flisted%3Adefault").status_code == 204
    assert api.client.get(path).status_code == 404
    assert api.client.delete(path).status_code == 404


def test_a_newer_build_ends_the_one_that_runs(api: Api) -> None:
    slow = api.request("overtaken")
    api.start(slow, run("sleep 60"))
    newer = api.request("overtaken")
    api.start(newer, run("true"))
    ended = api.wait(slow)
    assert ended["status"] == "error"
    assert "a newer build" in ended["reason"]["message"]
    assert api.wait(newer)["status"] == "ready"


def test_builds_of_other_tags_go_on_side_by_side(api: Api) -> None:
    slow = api.request("side:one")
    api.start(slow, run("sleep 60"))
    other = api.request("side:two")
    api.start(other, run("true"))

    assert api.wait(other)["status"] == "ready"
    assert api.status(slow)["status"] == "building"
    api.start(api.request("side:one"), run("true"))  # ends it
    assert api.wait(slow)["status"] == "error"


def test_names_that_are_asked_for_at_once_are_given_once(api: Api) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: api.request("at-once"), range(8)))
        volumes = [
            answer.status_code
            for answer in pool.map(
                lambda _: api.client.post("/volumes", json={"name": "at-once"}), range(8)
            )
        ]
        secrets = [
            answer.status_code
            for answer in pool.map(
                lambda _: api.client.post("/secrets", json={"name": "once", "value": "x"}), range(8)
            )
        ]

    assert len({template["templateID"] for template in made}) == 1
    assert sorted(volumes) == [201, *[400] * 7]
    assert sorted(secrets) == [201, *[409] * 7]


def test_the_previous_build_serves_until_the_next_one_is_ready(api: Api) -> None:
    api.build("steady", run("echo one > /tmp/which"))
    failed = api.build("steady", run("exit 1"))
    assert failed["status"] == "error"
    made = api.client.post("/v2/sandboxes", json={"templateID": "steady"})
    assert made.status_code == 201
    api.client.delete(f"/sandboxes/{made.json()['sandboxID']}")


def test_output_without_end_is_cut_and_that_is_said(api: Api) -> None:
    found = api.build("chatty", run("yes a line of output | head -c 50000000"))
    assert found["status"] == "ready", found
    assert "the rest is cut" in messages(found)
    assert len(found["logEntries"]) < 10_100


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({}, None),
        ({"Host": "api.sandboxes.example"}, "https://api.sandboxes.example"),
        ({"Host": "elsewhere.example:8080"}, "http://elsewhere.example:8080"),
        ({"X-Forwarded-Proto": "https"}, None),
        (
            {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.sandboxes.example"},
            "https://api.sandboxes.example",
        ),
        (
            {"Host": "api.sandboxes.example", "X-Forwarded-Proto": "http"},
            "http://api.sandboxes.example",
        ),
    ],
)
def test_an_upload_link_is_that_of_the_client(
    domain_api: Api, headers: dict[str, str], origin: str | None
) -> None:
    asked = domain_api.request("links")
    path = f"/templates/{asked['templateID']}/files/{'0' * 64}"

    url = domain_api.client.get(path, headers=headers).json()["url"]

    own = str(domain_api.client.base_url).rstrip("/")
    if origin is None:
        origin = own.replace("http://", f"{headers.get('X-Forwarded-Proto', 'http')}://")
    assert url.startswith(f"{origin}/template-uploads/")


@pytest.fixture(scope="module")
def domain_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An engine that is told its domain."""
    folder = tmp_path_factory.mktemp("domain")
    engine = start_engine(folder / "data", "--domain", "sandboxes.example", "--pool-size", "0")
    try:
        with httpx.Client(
            base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=30
        ) as client:
            yield Api(client)
    finally:
        engine.stop()


@pytest.mark.parametrize("path", ["/templates", "/v2/templates"])
def test_the_templates_of_another_team_cannot_be_listed(api: Api, path: str) -> None:
    answers = [api.client.get(path, params={"teamID": team}) for team in ("", "local", "other")]

    assert [answer.status_code for answer in answers] == [200, 200, 400]


@pytest.mark.parametrize(
    "command",
    [
        "adduser --disabled-password --gecos '' foo && id foo",
        "adduser --system --group service",
        "useradd -m -s /bin/bash u && echo u:p | chpasswd && getent shadow u | grep -q '^u:[$]'",
        "groupadd extra && usermod -aG extra user && passwd -l user",
        'test "$(stat -c "%a %G" /etc/shadow /etc/gshadow | sort -u)" = "640 shadow"',
    ],
)
def test_users_are_made_as_on_a_plain_debian(api: Api, command: str) -> None:
    built = api.build("with-users", {**run(command, "root"), "force": True})

    assert built["status"] == "ready", messages(built)
