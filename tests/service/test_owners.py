"""Who may use what on a shared engine, and how much of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.checks import check_error
from tests.engine_process import EngineProcess, start_engine
from tests.waiting import PATIENCE

from .conftest import create_sandbox

QUOTAS = (
    "--SbxEngine.quota={'sandboxes': 2, 'memory_mb': 3000}",
    "--SbxEngine.quotas={'carol': {'processors': 1}, 'dave': {'disk_mb': 20480}}",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="owners-") as folder:
        found = start_engine(Path(folder) / "data", "--pool-size", "1", *QUOTAS)
        try:
            yield found
        finally:
            assert found.stop() == 0


@pytest.fixture(scope="module")
def client_of(engine: EngineProcess) -> Iterator[Callable[[str], httpx.Client]]:
    """Clients by the names of owners, each with a key of its own; "" is the operator."""
    clients: dict[str, httpx.Client] = {}

    def open_client(owner: str, **fields: object) -> httpx.Client:
        if owner not in clients:
            key = engine.key
            if owner:
                body = {"owner": owner, **fields}
                key = open_client("").post("/engine/keys", json=body).json()["key"]
            clients[owner] = httpx.Client(
                base_url=engine.url, headers={"X-API-Key": key}, trust_env=False, timeout=30
            )
        return clients[owner]

    try:
        yield open_client
    finally:
        for client in clients.values():
            client.close()


@pytest.fixture
def operator(client_of: Callable[..., httpx.Client]) -> Iterator[httpx.Client]:
    """The client with the engine's own key; ends every sandbox after the test."""
    client = client_of("")
    yield client
    for each in client.get("/v2/sandboxes").json():
        client.delete(f"/sandboxes/{each['sandboxID']}")


def ids(client: httpx.Client) -> set[str]:
    return {each["sandboxID"] for each in client.get("/v2/sandboxes").json()}


def test_each_owner_sees_their_own_sandboxes_and_the_operator_all(operator, client_of) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    of_alice, of_bob = create_sandbox(alice).id, create_sandbox(bob).id

    assert ids(alice) == {of_alice}
    assert ids(bob) == {of_bob}
    assert ids(operator) == {of_alice, of_bob}
    auditor = client_of("auditor", seesAll=True)
    assert ids(auditor) == {of_alice, of_bob}


def test_who_sees_all_is_told_whose_a_sandbox_is(operator, client_of) -> None:
    auditor, alice = client_of("auditor", seesAll=True), client_of("alice")
    of_alice, of_auditor = create_sandbox(alice).id, create_sandbox(auditor).id

    def owners(client: httpx.Client) -> dict[str, str | None]:
        return {each["sandboxID"]: each.get("owner") for each in client.get("/v2/sandboxes").json()}

    assert owners(auditor) == {of_alice: "alice", of_auditor: None}
    assert owners(operator) == {of_alice: "alice", of_auditor: "auditor"}
    assert owners(alice) == {of_alice: None}
    assert auditor.get(f"/sandboxes/{of_alice}").json()["owner"] == "alice"


def test_each_owner_is_told_only_of_their_own_changes(operator, client_of) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    with alice.stream("GET", "/engine/events") as stream:
        told = (json.loads(line[6:]) for line in stream.iter_lines() if line[:6] == "data: ")
        assert next(told) == {}
        create_sandbox(bob)
        made = create_sandbox(alice).id

        assert next(told) == {"sandboxes": [made]}


def test_who_has_lost_their_key_is_told_nothing_more(operator, client_of) -> None:
    former = client_of("former", seesAll=True)
    keys = operator.get("/engine/keys").json()
    (key,) = [each["keyID"] for each in keys if each["owner"] == "former"]
    with former.stream("GET", "/engine/events") as stream:
        told = (json.loads(line[6:]) for line in stream.iter_lines() if line[:6] == "data: ")
        assert next(told) == {}
        operator.delete(f"/engine/keys/{key}")
        create_sandbox(operator)

        assert list(told) == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/sandboxes/{id}", None),
        ("DELETE", "/sandboxes/{id}", None),
        ("POST", "/v2/sandboxes/{id}/connect", {}),
        ("POST", "/sandboxes/{id}/connect", {"timeout": 60}),
        ("POST", "/sandboxes/{id}/resume", {}),
        ("POST", "/sandboxes/{id}/pause", {}),
        ("POST", "/sandboxes/{id}/fork", {}),
        ("POST", "/sandboxes/{id}/snapshots", {}),
        ("POST", "/sandboxes/{id}/timeout", {"timeout": 60}),
        ("POST", "/sandboxes/{id}/refreshes", {}),
        ("PUT", "/sandboxes/{id}/network", {}),
        ("GET", "/sandboxes/{id}/metrics", None),
        ("GET", "/sandboxes/{id}/logs", None),
        ("GET", "/v2/sandboxes/{id}/logs", None),
        ("PATCH", "/engine/sandboxes/{id}", {"metadata": {"owner": "bob"}}),
        ("GET", "/engine/sandboxes/{id}/diff", None),
        ("GET", "/engine/sandboxes/{id}/diff.tar", None),
        ("GET", "/engine/sandboxes/{id}/diff/before?path=/x", None),
        ("GET", "/engine/sandboxes/{id}/operations", None),
        ("DELETE", "/engine/sandboxes/{id}/operations/x", None),
    ],
)
def test_the_sandbox_of_another_owner_does_not_exist(
    operator, client_of, shared_of_alice, method, path, body
) -> None:
    bob = client_of("bob")

    refused = bob.request(method, path.format(id=shared_of_alice), json=body)
    unknown = bob.request(method, path.format(id="i" + "0" * 20), json=body)

    check_error(refused, 404)
    assert refused.text.replace(shared_of_alice, "") == unknown.text.replace("i" + "0" * 20, "")


@pytest.fixture
def shared_of_alice(operator, client_of) -> str:
    return create_sandbox(client_of("alice"), metadata={"owner": "bob"}).id


def test_metrics_of_several_leave_out_those_of_others(operator, client_of, shared_of_alice) -> None:
    path = f"/sandboxes/metrics?sandbox_ids={shared_of_alice}"

    assert client_of("bob").get(path).json() == {"sandboxes": {}}


def test_forks_snapshots_and_their_copies_stay_with_their_owner(operator, client_of) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    source = create_sandbox(alice).id
    made = alice.post(f"/sandboxes/{source}/snapshots", json={"name": "work"}).json()
    fork = alice.post(f"/sandboxes/{source}/fork", json={}).json()[0]["sandbox"]["sandboxID"]

    assert ids(bob) == set()
    assert ids(alice) == {source, fork}
    assert bob.get("/snapshots").json() == []
    assert bob.get("/snapshots", params={"sandboxID": source}).json() == []
    for name in ("work", made["snapshotID"], made["snapshotID"].removeprefix("local/")):
        check_error(bob.post("/v2/sandboxes", json={"templateID": name}), 404)
        check_error(bob.delete(f"/templates/{name.replace('/', '%2F')}"), 404)
    alice.delete(f"/sandboxes/{source}")
    assert len(alice.get("/snapshots", params={"sandboxID": source}).json()) == 1


def test_two_owners_use_one_name_for_different_snapshots(operator, client_of) -> None:
    made: dict[str, str] = {}
    for name in ("erin", "frank"):
        client = client_of(name)
        source = create_sandbox(client).id
        assert client.post(f"/sandboxes/{source}/snapshots", json={"name": "same"}).is_success
        client.delete(f"/sandboxes/{source}")
        started = client.post("/v2/sandboxes", json={"templateID": "same"}).json()
        made[name] = started["templateID"]

    assert made["erin"] != made["frank"]


def test_a_published_snapshot_can_be_used_by_others_and_not_changed(operator, client_of) -> None:
    alice, bob = client_of("grace"), client_of("bob")
    source = create_sandbox(alice).id
    alice.post(f"/sandboxes/{source}/snapshots", json={"name": "public-one"})
    assert alice.patch("/v2/templates/public-one", json={"public": True}).status_code == 200

    check_error(bob.patch("/v2/templates/public-one", json={"public": False}), 403)
    check_error(bob.delete("/templates/public-one"), 403)
    tag = {"target": "public-one", "tags": ["mine"]}
    check_error(bob.post("/templates/tags", json=tag), 403)
    assert create_sandbox(bob, templateID="public-one").id in ids(bob)


def test_volumes_and_secrets_belong_to_their_owner(operator, client_of) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    volume = alice.post("/volumes", json={"name": "data"}).json()
    secret = alice.post("/secrets", json={"name": "token", "value": "a"}).json()

    assert bob.get("/volumes").json() == []
    assert bob.get("/secrets").json() == []
    check_error(bob.get(f"/volumes/{volume['volumeID']}"), 404)
    check_error(bob.delete(f"/volumes/{volume['volumeID']}"), 404)
    for name in ("token", secret["secretID"]):
        check_error(bob.get(f"/secrets/{name}"), 404)
        check_error(bob.delete(f"/secrets/{name}"), 404)
        check_error(bob.post(f"/secrets/{name}", json={"value": "b"}), 404)
    mounts = [{"name": "data", "path": "/mnt/data"}]
    wanted = {"templateID": "base", "volumeMounts": mounts}
    check_error(bob.post("/v2/sandboxes", json=wanted), 400, "not found")
    assert bob.post("/volumes", json={"name": "data"}).status_code == 201
    assert bob.post("/secrets", json={"name": "token", "value": "b"}).status_code == 201


def test_one_owner_cannot_use_the_idempotency_key_of_another(operator, client_of) -> None:
    made = [
        client_of(name).post(
            "/v2/sandboxes", json={"templateID": "base"}, headers={"Idempotency-Key": "once"}
        )
        for name in ("alice", "bob", "alice")
    ]

    first, other, again = (answer.json()["sandboxID"] for answer in made)
    assert first == again
    assert first != other


def test_a_quota_is_refused_with_what_there_is(operator, client_of) -> None:
    alice = client_of("alice")
    first, _ = create_sandbox(alice), create_sandbox(alice)

    refused = alice.post("/v2/sandboxes", json={"templateID": "base"})

    check_error(refused, 429, "'alice' may have 2 sandboxes on this engine, has 2")
    assert alice.post(f"/sandboxes/{first.id}/fork", json={}).json()[0]["error"]["code"] == 429
    assert create_sandbox(operator).id
    assert create_sandbox(client_of("bob")).id
    alice.delete(f"/sandboxes/{first.id}")
    assert create_sandbox(alice).id


def test_processors_and_disk_have_quotas_of_their_own(operator, client_of) -> None:
    refused = client_of("carol").post("/v2/sandboxes", json={"templateID": "base"})
    check_error(refused, 429, "'carol' may have 1 processors")

    dave = client_of("dave")
    create_sandbox(dave)
    assert dave.post("/volumes", json={"name": "one"}).status_code == 201
    check_error(dave.post("/volumes", json={"name": "two"}), 429, "'dave' may have 20480 MiB of")


def test_a_sandbox_paused_without_memory_counts_again_when_it_resumes(operator, client_of) -> None:
    alice = client_of("alice")
    paused = create_sandbox(alice).id
    assert alice.post(f"/sandboxes/{paused}/pause", json={"memory": False}).status_code == 204
    for _ in range(2):
        create_sandbox(alice)

    refused = alice.post(f"/v2/sandboxes/{paused}/connect", json={})

    check_error(refused, 429, "'alice' may have 2 sandboxes")
    assert alice.get(f"/sandboxes/{paused}").json()["state"] == "paused"


def test_only_the_operator_manages_keys_and_a_revoked_key_ends(engine, operator) -> None:
    made = operator.post("/engine/keys", json={"owner": "temp"}).json()
    headers = {"X-API-Key": made["key"]}

    listed = operator.get("/engine/keys")
    refused = httpx.get(
        f"{engine.url}/engine/keys", headers=headers, trust_env=False, timeout=PATIENCE
    )
    before = httpx.get(
        f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
    )
    assert operator.delete(f"/engine/keys/{made['keyID']}").status_code == 204
    after = httpx.get(
        f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
    )

    assert made["key"] not in listed.text
    assert made["key"] not in (engine.data_dir / "owner-keys.json").read_text()
    check_error(refused, 403)
    assert before.status_code == 200
    check_error(after, 401)
    check_error(operator.delete(f"/engine/keys/{made['keyID']}"), 404)


@pytest.mark.parametrize("owner", ["", "a\nb", "x" * 129])
def test_an_owner_needs_a_name(operator, owner: str) -> None:
    check_error(operator.post("/engine/keys", json={"owner": owner}), 400)


def test_owners_and_keys_outlive_the_engine(engine, operator, client_of) -> None:
    of_heidi = create_sandbox(client_of("heidi")).id
    of_operator = create_sandbox(operator).id
    keys = {name: client_of(name).headers["X-API-Key"] for name in ("heidi", "")}
    engine.kill()
    engine.start()

    seen = {
        name: {
            each["sandboxID"]
            for each in httpx.get(
                f"{engine.url}/v2/sandboxes",
                headers={"X-API-Key": key},
                trust_env=False,
                timeout=PATIENCE,
            ).json()
        }
        for name, key in keys.items()
    }

    assert seen == {"heidi": {of_heidi}, "": {of_heidi, of_operator}}


def announce(client: httpx.Client, name: str) -> tuple[str, str]:
    """The ids of a new template and its first build."""
    answer = client.post("/v3/templates", json={"name": name}).json()
    return answer["templateID"], answer["buildID"]


def test_files_of_builds_are_found_by_their_hash_by_their_owner_only(operator, client_of) -> None:
    files_hash = "ab" * 32
    alice, bob = client_of("alice"), client_of("bob")
    links = {
        name: f"/templates/{announce(client, f'files-{name}')[0]}/files/{files_hash}"
        for name, client in {"alice": alice, "bob": bob, "": operator}.items()
    }
    upload = alice.get(links["alice"]).json()["url"]
    assert (
        httpx.put(upload, content=b"of alice", trust_env=False, timeout=PATIENCE).status_code == 200
    )

    present = {name: client_of(name).get(link).json()["present"] for name, link in links.items()}

    assert present == {"alice": True, "bob": False, "": False}
    assert operator.get(links["alice"]).json()["present"] is True


def test_a_public_template_shows_others_no_log_and_takes_none_of_their_files(client_of) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    template, build = announce(alice, "public-of-alice")
    assert alice.patch(f"/v2/templates/{template}", json={"public": True}).status_code == 200
    routes = [
        f"/templates/{template}/builds/{build}/status",
        f"/templates/{template}/builds/{build}/logs",
        f"/templates/{template}/files/{'cd' * 32}",
    ]

    assert [alice.get(route).status_code for route in routes] == [200, 200, 201]
    assert bob.get(f"/templates/{template}").status_code == 200
    for route in routes:
        check_error(bob.get(route), 403)
