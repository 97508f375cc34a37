"""The diff of a real sandbox, against its template and against a snapshot."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.checks import check_error
from tests.engine_process import EngineProcess
from tests.waiting import PATIENCE


@pytest.fixture
def api(shared_engine: EngineProcess) -> Iterator[httpx.Client]:
    connection = shared_engine.connection
    headers = {"X-API-KEY": connection.api_key}
    with httpx.Client(
        base_url=connection.url, headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        yield client


@pytest.fixture
def sandbox(shared_engine: EngineProcess) -> Iterator[Sandbox]:
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    with Sandbox.create(timeout=120, config=config) as made:
        yield made


def changes(api: httpx.Client, sandbox: Sandbox, **query: str) -> dict[str, str]:
    answer = api.get(f"/engine/sandboxes/{sandbox.sandbox_id}/diff", params=query)
    answer.raise_for_status()
    body: dict[str, Any] = answer.json()
    assert body["truncated"] is False
    return {item["path"]: item["change"] for item in body["changes"]}


def run_as_root(sandbox: Sandbox, script: str) -> None:
    assert sandbox.commands.run(script, user="root").exit_code == 0


def test_a_sandbox_is_compared_with_its_template(api: httpx.Client, sandbox: Sandbox) -> None:
    assert changes(api, sandbox) == {}
    run_as_root(
        sandbox,
        "echo new > /home/user/new; mkdir /srv/d; echo 1 > /srv/d/f;"
        " echo changed >> /etc/profile; rm /etc/shells; rm /usr/bin/git; echo x > /usr/lib/x",
    )

    assert changes(api, sandbox) == {
        "/etc/profile": "changed",
        "/etc/shells": "deleted",
        "/home/user/new": "added",
        "/srv/d": "added",
        "/srv/d/f": "added",
        "/usr/bin/git": "deleted",
        "/usr/lib/x": "added",
    }


def test_a_sandbox_is_compared_with_a_snapshot_of_it(api: httpx.Client, sandbox: Sandbox) -> None:
    sandbox.files.write("kept", "1")
    sandbox.files.write("gone", "1")
    made = api.post(f"/sandboxes/{sandbox.sandbox_id}/snapshots", json={}).json()
    sandbox.files.remove("gone")
    sandbox.files.write("later", "2")

    found = changes(api, sandbox, since=made["snapshotID"])

    assert found["/home/user/gone"] == "deleted"
    assert found["/home/user/later"] == "added"
    assert "/home/user/kept" not in found


def test_the_changed_files_come_as_a_tar(api: httpx.Client, sandbox: Sandbox) -> None:
    sandbox.files.write("big", b"x" * 3_000_000)
    run_as_root(sandbox, "ln -s /etc/shadow /home/user/link; rm /etc/hosts")

    answer = api.get(f"/engine/sandboxes/{sandbox.sandbox_id}/diff.tar")

    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        big = archive.extractfile("home/user/big")
        assert big is not None
        assert big.read() == b"x" * 3_000_000
        assert archive.getmember("home/user/link").linkname == "/etc/shadow"
        assert "etc/hosts" not in archive.getnames()


def test_a_file_is_read_as_it_was_before(api: httpx.Client, sandbox: Sandbox) -> None:
    sandbox.files.write("changed", "first")
    sandbox.files.write("gone", b"x" * 300_000)
    made = api.post(f"/sandboxes/{sandbox.sandbox_id}/snapshots", json={}).json()
    sandbox.files.write("changed", "second")
    sandbox.files.remove("gone")
    sandbox.files.write("new", "2")
    run_as_root(sandbox, "echo more >> /etc/hosts; echo x > /usr/bin/git")

    def before(path: str, since: str | None = made["snapshotID"]) -> httpx.Response:
        params = {"path": path} | ({"since": since} if since else {})
        return api.get(f"/engine/sandboxes/{sandbox.sandbox_id}/diff/before", params=params)

    assert before("/home/user/changed").text == "first"
    assert before("/home/user/gone").content == b"x" * 300_000
    assert "more" not in before("/etc/hosts", None).raise_for_status().text
    for path in ("/home/user/new", "/usr/bin/git", "/home/user/../user/changed", "/"):
        assert before(path).status_code == 404
    assert before("home/user/changed").status_code == 400
    assert before("/usr/bin/git", None).status_code == 404


@pytest.mark.parametrize("route", ["diff", "diff.tar", "diff/before?path=/x"])
def test_unknown_sandboxes_and_snapshots_are_404(
    api: httpx.Client, sandbox: Sandbox, route: str
) -> None:
    unknown = api.get(f"/engine/sandboxes/i{'0' * 20}/{route}")
    query = "&since=nothing" if "?" in route else "?since=nothing"
    no_snapshot = api.get(f"/engine/sandboxes/{sandbox.sandbox_id}/{route}{query}")

    check_error(unknown, 404)
    check_error(no_snapshot, 404)


def test_the_diff_needs_the_key(api: httpx.Client, sandbox: Sandbox) -> None:
    url = f"{api.base_url}/engine/sandboxes/{sandbox.sandbox_id}/diff"

    assert httpx.get(url, trust_env=False, timeout=PATIENCE).status_code == 401
