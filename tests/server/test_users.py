"""On a server that knows its users, each sees their own sandboxes."""

from __future__ import annotations

import json
import os

import httpx
import pytest
import pytest_asyncio
from jupyter_server.auth import User
from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider
from tornado.httpclient import HTTPClientError

from sbx_jupyter.server import sandboxes
from sbx_jupyter.server.kernels import kernel_routes
from sbx_jupyter.server.users import has_several_identities
from tests.waiting import PATIENCE, async_until


class NamedUsers(IdentityProvider):
    """Takes the name of a user who has the token from a header, as a proxy in front may set it."""

    async def get_user(self, handler):
        found = await self._get_user(handler)
        return found and User(handler.request.headers.get("X-User", "nobody"))


@pytest.fixture
def jp_server_config(jp_server_config):
    jp_server_config["ServerApp"]["identity_provider_class"] = NamedUsers
    return jp_server_config


@pytest.fixture
def as_user(api):
    """``await as_user("alice", "GET", "sandboxes")``: status and body."""

    async def call(user, method, *parts, **options):
        return await api(method, *parts, headers={"X-User": user}, **options)

    return call


@pytest.fixture
def ids(as_user):
    async def call(user):
        status, body = await as_user(user, "GET", "sandboxes")
        assert status == 200, body
        return {each["sandboxID"] for each in body["sandboxes"]}

    return call


@pytest.fixture
def extension_settings(extension_settings, engine, tmp_path):
    return {
        **extension_settings,
        "data_dir": str(engine.data_dir),
        "see_all_users": ["auditor"],
        "audit_file": str(tmp_path / "audit.jsonl"),
    }


@pytest_asyncio.fixture
async def of_alice(as_user):
    status, body = await as_user("alice", "POST", "sandboxes", body={"timeout": 600})
    assert status == 201, body
    yield body["sandboxID"]
    await as_user("alice", "DELETE", "sandboxes", body["sandboxID"])


async def test_each_user_sees_their_own(as_user, ids, of_alice):
    assert of_alice in await ids("alice")
    assert of_alice not in await ids("bob")
    assert of_alice in await ids("auditor")


ROUTES = [
    ("GET", ""),
    ("DELETE", ""),
    ("PATCH", ""),
    ("POST", "/pause"),
    ("POST", "/connect"),
    ("POST", "/timeout"),
    ("POST", "/fork"),
    ("POST", "/snapshots"),
    ("GET", "/metrics"),
    ("GET", "/metrics/history"),
    ("GET", "/terminals"),
    ("GET", "/listing?path=/etc"),
    ("GET", "/logs"),
    ("GET", "/diff"),
    ("GET", "/processes"),
    ("GET", "/files?path=/etc/passwd"),
    ("POST", "/files?path=/tmp/x"),
    ("POST", "/rpc/filesystem.Filesystem/ListDir"),
]
BODIES = {"": {"name": "x"}, "/timeout": {"timeout": 60}}


async def test_what_is_somebody_elses_is_not_there(as_user, jp_fetch, of_alice):
    # Alice uses it first: what the server remembers for her must not serve others.
    assert (await as_user("alice", "GET", "sandboxes", of_alice, "terminals"))[0] == 200

    statuses = {}
    for method, rest in ROUTES:
        route, _, query = rest.partition("?")
        parts = ["sandboxes", of_alice, *filter(None, route.split("/"))]
        options = {"body": BODIES.get(route, {})} if method in ("POST", "PATCH") else {}
        if query:
            options["params"] = dict([query.split("=")])
        statuses[method, rest], _ = await as_user("bob", method, *parts, **options)

    assert statuses == dict.fromkeys(ROUTES, 404)
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("sbx", "port", of_alice, "8000", headers={"X-User": "bob"})
    assert refused.value.code == 404


async def test_a_socket_of_somebody_elses_sandbox_is_refused(open_socket, of_alice):
    socket = await open_socket(f"sandboxes/{of_alice}/terminal", headers={"X-User": "bob"})

    assert json.loads(await socket.read_message())["error"]["code"] == "not_found"


async def test_a_terminal_opens_for_its_owner_and_for_who_sees_all(open_socket, as_user, of_alice):
    route = f"sandboxes/{of_alice}/terminal"
    first = await open_socket(route, headers={"X-User": "alice"})
    pid = json.loads(await first.read_message())["pid"]

    for user, is_let_in in (("auditor", True), ("bob", False)):
        headers = {"X-User": user}
        socket = await open_socket(route, headers=headers, pid=pid, readOnly="true")
        assert ("pid" in json.loads(await socket.read_message())) is is_let_in
        one = ("sandboxes", of_alice, "terminals", str(pid))
        status, _ = await as_user(user, "PATCH", *one, body={"name": f"of {user}"})
        assert status == (200 if is_let_in else 404)
    shown = (await as_user("alice", "GET", *one))[1]
    assert shown["name"] == "of auditor"
    assert {"user": "auditor", "readOnly": True} in shown["viewers"]


async def test_kernels_have_an_owner_of_their_own(ids, of_alice):
    url, key = os.environ["E2B_API_URL"], os.environ["E2B_API_KEY"]
    headers = {"X-API-Key": key}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        made = await client.post("/v2/sandboxes", json={"templateID": "base"}, timeout=30)
        of_kernel = made.raise_for_status().json()["sandboxID"]
        try:
            listed = {each["sandboxID"] for each in await _list(url, key)}
            assert listed == {of_kernel}
            assert of_kernel not in await ids("alice")
            assert of_kernel in await ids("auditor")
        finally:
            await client.delete(f"/sandboxes/{of_kernel}")


async def test_kernels_in_the_sandboxes_of_others_are_not_named(as_user, of_alice, monkeypatch):
    place = {"kernelID": "a-kernel", "sandboxID": of_alice}

    async def places(_manager):
        return [place]

    for module in (kernel_routes, sandboxes):
        monkeypatch.setattr(module, "kernel_places", places)
    for user, shown in {"alice": [place], "auditor": [place], "bob": []}.items():
        for route in ("kernels", "sandboxes"):
            assert (await as_user(user, "GET", route))[1]["kernels"] == shown


async def test_the_audit_log_names_user_sandbox_and_address(as_user, of_alice, tmp_path):
    await as_user("alice", "POST", "sandboxes", of_alice, "timeout", body={"timeout": 90})
    await as_user("alice", "GET", "sandboxes", of_alice)
    await as_user("bob", "DELETE", "sandboxes", of_alice)

    text = (tmp_path / "audit.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]

    of_sandbox = [entry for entry in found if entry.get("sandbox") == of_alice]
    assert [(each["user"], each["action"], each["status"]) for each in of_sandbox] == [
        ("alice", f"POST sandboxes/{of_alice}/timeout", 204),
        ("bob", f"DELETE sandboxes/{of_alice}", 404),
    ]
    assert {each["from"] for each in found} == {"127.0.0.1"}
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


async def test_keys_of_users_end_with_the_server(engine, jp_serverapp, of_alice, as_user):
    connection = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app.users.of(
        User("alice")
    )
    key = (await connection.default.transport()).config.api_key
    assert key != engine.key
    assert of_alice in {each["sandboxID"] for each in await _list(engine.url, key)}
    await as_user("alice", "DELETE", "sandboxes", of_alice)

    await jp_serverapp.extension_manager.stop_all_extensions()

    async def is_refused():
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"{engine.url}/v2/sandboxes", headers={"X-API-Key": key})
        return answer.status_code == 401

    await async_until(is_refused)


class TestOtherDeployments:
    @pytest.fixture
    def extension_settings(self, extension_settings):
        key = "e2b_" + "0" * 40
        remote = {"far": {"api_url": "http://127.0.0.1:9", "api_key": key}}
        return {**extension_settings, "connections": remote}

    async def test_are_for_those_who_see_all(self, as_user):
        names = {
            user: [
                each["name"]
                for each in (await as_user(user, "GET", "connections"))[1]["connections"]
            ]
            for user in ("alice", "auditor")
        }

        assert names == {"alice": ["local"], "auditor": ["local", "far"]}

    class TestWithoutLocalEngine:
        @pytest.fixture
        def extension_settings(self, extension_settings):
            return {**extension_settings, "offer_local": False}

        async def test_others_have_none(self, as_user):
            status, body = await as_user("alice", "GET", "sandboxes")

            assert (status, body["code"]) == (403, "permission_denied")
            assert "see_all_users" in body["message"]


def test_token_and_password_know_no_users():
    assert not has_several_identities(IdentityProvider())
    assert not has_several_identities(PasswordIdentityProvider())
    assert has_several_identities(NamedUsers())


async def _list(url, key):
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        answer = await client.get(f"{url}/v2/sandboxes", headers={"X-API-Key": key})
    return answer.raise_for_status().json()
