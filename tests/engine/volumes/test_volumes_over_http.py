"""Volumes through the engine: the unmodified e2b client, tokens, and live sharing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from e2b import Sandbox, Volume

from tests.checks import check_error
from tests.engine_process import EngineProcess
from tests.waiting import PATIENCE, until, until_equal


@pytest.fixture
def api(shared_engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    connection = shared_engine.connection
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"):
        monkeypatch.setenv(name, connection.url)
    monkeypatch.setenv("E2B_API_KEY", connection.api_key)
    headers = {"X-API-KEY": connection.api_key}
    with httpx.Client(
        base_url=connection.url, headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        yield client


@pytest.fixture
def volume(api: httpx.Client) -> Iterator[dict[str, Any]]:
    made = api.post("/volumes", json={"name": "shared"}).json()
    yield made
    api.delete(f"/volumes/{made['volumeID']}")


def content(api: httpx.Client, volume: dict[str, Any], token: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token or volume['token']}"}
    url = f"{api.base_url}/volumecontent/{volume['volumeID']}"
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE)


def test_the_unmodified_client_keeps_files_in_a_volume(api: httpx.Client) -> None:
    volume = Volume.create("e2b-volume")
    try:
        volume.write_file("/data/a.txt", "hello", force=True)
        volume.make_dir("/data/sub")

        assert volume.read_file("/data/a.txt") == "hello"
        assert sorted(entry.name for entry in volume.list("/data")) == ["a.txt", "sub"]
        assert volume.exists("/data/a.txt")
        volume.remove("/data/a.txt")
        assert not volume.exists("/data/a.txt")
    finally:
        assert Volume.destroy(volume.volume_id)
    assert not Volume.destroy(volume.volume_id)


def test_two_sandboxes_and_the_content_api_write_at_once(api: httpx.Client) -> None:
    volume = Volume.create("busy")
    first = Sandbox.create(volume_mounts={"/mnt/v": volume}, timeout=600)
    second = Sandbox.create(volume_mounts={"/mnt/v": volume}, timeout=600)
    try:
        script = "for i in $(seq 200); do echo line >> /mnt/v/$0.log; done"
        threads = [
            threading.Thread(target=sandbox.commands.run, args=(f"bash -c '{script}' {name}",))
            for name, sandbox in (("first", first), ("second", second))
        ]
        for thread in threads:
            thread.start()
        for index in range(30):
            volume.write_file(f"/outside-{index}", str(index))
        for thread in threads:
            thread.join()

        names = {entry.name for entry in volume.list("/")}
        assert names == {"first.log", "second.log", *(f"outside-{i}" for i in range(30))}
        assert second.commands.run("wc -l < /mnt/v/first.log").stdout.strip() == "200"
        assert volume.read_file("/second.log").count("line") == 200
        assert first.commands.run("cat /mnt/v/outside-7").stdout == "7"
    finally:
        first.kill()
        second.kill()
        Volume.destroy(volume.volume_id)


def test_a_volume_outlives_the_sandbox_that_wrote_it(api: httpx.Client) -> None:
    volume = Volume.create("kept")
    try:
        with Sandbox.create(volume_mounts={"/mnt/v": volume}, timeout=600) as sandbox:
            sandbox.commands.run("echo kept > /mnt/v/f")
        with Sandbox.create(volume_mounts={"/mnt/v": volume}, timeout=600) as sandbox:
            assert sandbox.commands.run("cat /mnt/v/f").stdout == "kept\n"
    finally:
        Volume.destroy(volume.volume_id)


def test_a_sandbox_cannot_lead_the_content_api_out_of_the_volume(api: httpx.Client) -> None:
    volume = Volume.create("trap")
    try:
        with Sandbox.create(volume_mounts={"/mnt/v": volume}, timeout=600) as sandbox:
            sandbox.commands.run("ln -s / /mnt/v/root; ln -s /etc/passwd /mnt/v/passwd")
        with content(api, {"volumeID": volume.volume_id, "token": volume.token}) as client:
            for path in ("/passwd", "/root/etc/passwd", "/root/../etc/passwd"):
                assert client.get("/file", params={"path": path}).status_code in (400, 404)
    finally:
        Volume.destroy(volume.volume_id)


@pytest.mark.parametrize(
    ("name", "message"),
    [("a b", "Volume name"), ("", "Volume name"), ("shared", "Volume with name 'shared' already")],
)
def test_names_that_are_refused(
    api: httpx.Client, volume: dict[str, Any], name: str, message: str
) -> None:
    check_error(api.post("/volumes", json={"name": name}), 400, message)


def test_an_unknown_volume_is_404_and_a_bad_id_400(api: httpx.Client) -> None:
    check_error(api.get("/volumes/00000000-0000-4000-8000-000000000000"), 404)
    check_error(api.get("/volumes/nonsense"), 400, "Invalid volume ID")


def test_content_opens_by_the_volumes_token_alone(
    api: httpx.Client, volume: dict[str, Any]
) -> None:
    other = api.post("/volumes", json={"name": "other"}).json()
    key = api.headers["X-API-KEY"]
    try:
        for token in (other["token"], key, "nonsense"):
            with content(api, volume, token) as client:
                answer = client.get("/dir", params={"path": "/"})
                check_error(answer, 401, code="unauthenticated")
        url = f"/volumecontent/{volume['volumeID']}/dir"
        assert api.get(url, params={"path": "/"}).status_code == 401
    finally:
        api.delete(f"/volumes/{other['volumeID']}")


def test_writes_without_force_are_exclusive(api: httpx.Client, volume: dict[str, Any]) -> None:
    with content(api, volume) as client:
        first = client.put("/file", params={"path": "/f"}, content=b"one")
        second = client.put("/file", params={"path": "/f"}, content=b"two")
        forced = client.put("/file", params={"path": "/f", "force": "true"}, content=b"three")

        assert (first.status_code, first.json()["size"]) == (201, 3)
        check_error(second, 409, code="already_exists")
        assert (forced.status_code, forced.json()["size"]) == (201, 5)
        assert client.get("/file", params={"path": "/f"}).content == b"three"


def test_an_upload_that_breaks_off_leaves_the_old_file(
    api: httpx.Client, shared_engine: EngineProcess, volume: dict[str, Any]
) -> None:
    head = (
        f"PUT /volumecontent/{volume['volumeID']}/file?path=/f&force=true HTTP/1.1\r\n"
        f"Host: localhost\r\nAuthorization: Bearer {volume['token']}\r\n"
        "Content-Length: 1000\r\n\r\n"
    )

    with content(api, volume) as client:

        def names() -> list[str]:
            listed = client.get("/dir", params={"path": "/"}).json()
            return [entry["name"] for entry in listed]

        assert client.put("/file", params={"path": "/f"}, content=b"whole").status_code == 201
        with socket.create_connection(("127.0.0.1", shared_engine.port), timeout=30) as sock:
            sock.sendall(head.encode() + b"half")
            until(lambda: len(names()) == 2)
            assert client.get("/file", params={"path": "/f"}).content == b"whole"

        until_equal(names, ["f"])
        assert client.get("/file", params={"path": "/f"}).content == b"whole"


@pytest.mark.parametrize(
    ("method", "route", "query", "status"),
    [
        ("GET", "/path", {}, 400),
        ("GET", "/path", {"path": "/none"}, 404),
        ("GET", "/dir", {"path": "/", "depth": "11"}, 400),
        ("GET", "/dir", {"path": "/none"}, 404),
        ("GET", "/file", {"path": "/"}, 400),
        ("GET", "/file", {"path": "/none"}, 404),
        ("PUT", "/file", {"path": "/a/b"}, 404),
        ("PUT", "/file", {"path": "/"}, 400),
        ("POST", "/dir", {"path": "/a/b"}, 404),
        ("DELETE", "/path", {"path": "/"}, 400),
        ("DELETE", "/path", {"path": "/none"}, 404),
        ("PATCH", "/path", {"path": "/none"}, 404),
        ("PUT", "/path", {"path": "/x"}, 405),
    ],
)
def test_statuses_of_bad_content_requests(
    api: httpx.Client, volume: dict[str, Any], method: str, route: str, query: dict, status: int
) -> None:
    with content(api, volume) as client:
        body = b'{"mode": 384}' if method == "PATCH" else b""
        answer = client.request(method, route, params=query, content=body)

    assert answer.status_code == status
    assert isinstance(answer.json()["code"], str)


def test_a_large_file_passes_through_both_ways(api: httpx.Client, volume: dict[str, Any]) -> None:
    block = bytes(range(256)) * 4096

    with content(api, volume) as client:
        blocks = (block for _ in range(64))
        assert client.put("/file", params={"path": "/big"}, content=blocks).status_code == 201
        with client.stream("GET", "/file", params={"path": "/big"}) as reply:
            assert sum(len(chunk) for chunk in reply.iter_raw()) == 64 * len(block)


def test_secrets_over_http_never_show_a_value(api: httpx.Client) -> None:
    made = api.post("/secrets", json={"name": "Token", "value": "hunter2", "metadata": {"a": "b"}})
    try:
        assert made.status_code == 201
        assert made.json()["name"] == "token"
        again = api.post("/secrets", json={"name": "token", "value": "x"})
        updated = api.post("/secrets/token", json={"value": "hunter3"})
        listed = api.get("/secrets", params={"limit": 1})

        assert again.status_code == 409
        assert updated.json()["currentVersion"] == 2
        assert listed.headers["Cache-Control"] == "no-store"
        for answer in (made, again, updated, listed, api.get("/secrets/token")):
            assert "hunter" not in answer.text
    finally:
        assert api.delete("/secrets/token").status_code == 204
    assert api.delete("/secrets/token").status_code == 404


def test_secrets_are_paged(api: httpx.Client) -> None:
    names = [f"page-{index}" for index in range(5)]
    for name in names:
        api.post("/secrets", json={"name": name, "value": "v"})
    try:
        seen: list[str] = []
        query: dict[str, str] = {"limit": "2"}
        while True:
            answer = api.get("/secrets", params=query)
            seen += [item["name"] for item in answer.json()]
            if "X-Next-Token" not in answer.headers:
                break
            query["nextToken"] = answer.headers["X-Next-Token"]

        assert seen == names[::-1]
        assert api.get("/secrets", params={"nextToken": "nonsense"}).status_code == 400
    finally:
        for name in names:
            api.delete(f"/secrets/{name}")


def test_a_page_goes_on_where_a_secret_was_removed(api: httpx.Client) -> None:
    names = [f"going-{index}" for index in range(4)]
    for name in names:
        api.post("/secrets", json={"name": name, "value": "v"})
    try:
        page = api.get("/secrets", params={"limit": 2})
        api.delete(f"/secrets/{page.json()[-1]['name']}")
        query = {"limit": 2, "nextToken": page.headers["X-Next-Token"]}
        following = api.get("/secrets", params=query)

        assert [item["name"] for item in following.json()] == ["going-1", "going-0"]
    finally:
        for name in names:
            api.delete(f"/secrets/{name}")


def test_every_bad_mount_of_a_request_is_named(api: httpx.Client, volume: dict[str, Any]) -> None:
    known = {found["sandboxID"] for found in api.get("/v2/sandboxes").json()}
    paths = ("relative", "/fine", "/a/../etc", "/a\0b")
    mounts = [{"name": "shared", "path": path} for path in paths]

    refused = api.post("/v2/sandboxes", json={"templateID": "base", "volumeMounts": mounts})

    check_error(refused, 400)
    assert refused.json()["message"].split("\n") == [
        "invalid mounts:",
        "- volume mount #0: path 'relative' is not absolute",
        "- volume mount #2: path '/a/../etc' is not clean",
        "- volume mount #3: path '/a\0b' is not clean",
    ]
    assert {found["sandboxID"] for found in api.get("/v2/sandboxes").json()} == known
