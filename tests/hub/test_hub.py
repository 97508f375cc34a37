"""Sandboxes below a JupyterHub, with an engine for each user and with one for all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.hub.conftest import QUOTA, Setup
from tests.hub.hub import USERS, processes_of
from tests.server.ports.programs import PROGRAM
from tests.waiting import until_equal

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(600)

ANN, BOB = USERS


@pytest.fixture
def ann(setup: Setup) -> Iterator[httpx.Client]:
    with setup.hub.client(ANN) as client:
        yield client


@pytest.fixture
def bob(setup: Setup) -> Iterator[httpx.Client]:
    with setup.hub.client(BOB) as client:
        yield client


@contextlib.contextmanager
def new_sandbox(client: httpx.Client) -> Iterator[str]:
    made = client.post("api/sandboxes", json={"timeout": 600})
    made.raise_for_status()
    sandbox_id = made.json()["sandboxID"]
    try:
        yield sandbox_id
    finally:
        client.delete(f"api/sandboxes/{sandbox_id}")


@pytest.fixture
def of_ann(ann: httpx.Client) -> Iterator[str]:
    with new_sandbox(ann) as sandbox_id:
        yield sandbox_id


def ids(client: httpx.Client) -> set[str]:
    listed = client.get("api/sandboxes").raise_for_status().json()
    return {each["sandboxID"] for each in listed["sandboxes"]}


def run(client: httpx.Client, sandbox_id: str, line: str, until_shown: bytes) -> bytes:
    """Type a line into a new terminal of the sandbox; what it showed."""

    async def type_line() -> bytes:
        url = f"{client.base_url}api/sandboxes/{sandbox_id}/terminal"
        headers = {"Authorization": client.headers["Authorization"]}
        request = HTTPRequest(url.replace("http", "ws", 1), headers=headers)
        socket = await websocket_connect(request)
        start = json.loads(str(await socket.read_message()))
        assert "pid" in start, start
        await socket.write_message(line.encode() + b"\n", binary=True)
        shown = b""
        while until_shown not in shown:
            message = await socket.read_message()
            assert message is not None, shown
            shown += message if isinstance(message, bytes) else b""
        socket.close()
        while await socket.read_message() is not None:
            pass  # else its connection stays open when the loop ends
        return shown

    return asyncio.run(asyncio.wait_for(type_line(), 60))


def test_each_user_sees_their_own_sandboxes(
    setup: Setup, ann: httpx.Client, bob: httpx.Client, of_ann: str
) -> None:
    with new_sandbox(bob) as of_bob:
        assert ids(ann) == {of_ann}
        assert ids(bob) == {of_bob}
        assert bob.get(f"api/sandboxes/{of_ann}").status_code == 404
        assert bob.delete(f"api/sandboxes/{of_ann}").status_code == 404
        with setup.hub.client(BOB, server_of=ANN) as client:
            for path in ("api/sandboxes", f"port/{of_ann}/8000/"):
                assert client.get(path).status_code == 403


def test_a_terminal_runs_a_command(ann: httpx.Client, of_ann: str) -> None:
    assert b"=42" in run(ann, of_ann, "echo =$((6*7))", b"=42")


def test_a_file_comes_back_as_it_was_sent(ann: httpx.Client, of_ann: str) -> None:
    content = os.urandom(16 * 1024 * 1024)
    url = f"api/sandboxes/{of_ann}/files"
    headers = {"Content-Type": "application/octet-stream"}

    ann.post(url, params={"path": "big"}, content=content, headers=headers).raise_for_status()
    back = ann.get(url, params={"path": "big"}).raise_for_status().content

    assert hashlib.sha256(back).digest() == hashlib.sha256(content).digest()


def test_a_port_answers_a_token_and_a_page_with_a_grant(
    setup: Setup, ann: httpx.Client, of_ann: str
) -> None:
    url = f"api/sandboxes/{of_ann}/files"
    headers = {"Content-Type": "application/octet-stream"}
    ann.post(url, params={"path": "/tmp/program.py"}, content=PROGRAM.read_bytes(), headers=headers)
    run(ann, of_ann, "setsid python3 /tmp/program.py 8000 & echo =$((6*7))", b"=42")

    told = ann.get(f"port/{of_ann}/8000/x").raise_for_status().json()
    names = {name.lower(): value for name, value in told["headers"]}

    assert told["path"] == "/x"
    assert not {"authorization", "cookie"} & set(names)
    assert setup.hub.token_of(ANN) not in str(told)


def test_a_quota_refuses_with_a_sentence_and_only_its_owner(
    setup: Setup, ann: httpx.Client, bob: httpx.Client
) -> None:
    if setup.shared is None:
        pytest.skip("the key of a user's own engine has no quota")
    with contextlib.ExitStack() as stack:
        for _ in range(QUOTA["sandboxes"]):
            stack.enter_context(new_sandbox(ann))
        refused = ann.post("api/sandboxes", json={})
        stack.enter_context(new_sandbox(bob))

    assert refused.status_code == 429
    assert "2" in refused.json()["message"]


def test_nobody_but_root_reads_the_keys_of_a_shared_engine(setup: Setup) -> None:
    if setup.shared is None:
        pytest.skip("there is no shared engine")
    keys = setup.shared.data_dir.with_suffix(".keys")

    assert sorted(file.name for file in keys.iterdir()) == ["ann", "bob%40lab"]
    assert {file.stat().st_mode & 0o777 for file in keys.iterdir()} == {0o600}
    assert keys.stat().st_mode & 0o777 == 0o700
    assert setup.shared.data_dir.stat().st_mode & 0o077 == 0


def test_a_stopped_server_leaves_nothing_but_what_is_shared(
    setup: Setup, ann: httpx.Client, bob: httpx.Client
) -> None:
    with new_sandbox(bob) as of_bob:
        made = ann.post("api/sandboxes", json={"timeout": 600}).raise_for_status()
        of_ann = made.json()["sandboxID"]
        run(ann, of_ann, "sleep 1000 & echo =$((6*7))", b"=42")

        setup.hub.stop(ANN)
        until_equal(lambda: processes_of({USERS[ANN]}), {}, message="Left of ann")

        assert ids(bob) == {of_bob}
        setup.hub.start(ANN)
        expected = set() if setup.shared is None else {of_ann}
        assert ids(ann) == expected
        ann.delete(f"api/sandboxes/{of_ann}")
