"""Snapshots and forks through HTTP: what is refused, and what they hold (interface 1.4 and 9.6)."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import httpx
import pytest

from tests.checks import check_error
from tests.engine.storage.disk.conftest import Sandboxes, run
from tests.waiting import until

WRITER = """
import os, time
names = [os.path.expanduser("~/first"), os.path.expanduser("~/second")]
files = [os.open(name, os.O_WRONLY | os.O_CREAT) for name in names]
blocks = os.open(os.path.expanduser("~/blocks"), os.O_WRONLY | os.O_CREAT)
number = 0
while True:
    number += 1
    for file in files:
        os.pwrite(file, b"%012d" % number, 0)
    for block in range(64):
        os.pwrite(blocks, (b"%016d" % number) * 256, block * 4096)
"""
"""First then second; block after block: no moment has a later number before an earlier one."""


def test_files_that_are_being_written_are_those_of_one_moment(sandboxes: Sandboxes) -> None:
    source = sandboxes.create()
    source.files.write("/home/user/writer.py", WRITER)
    writer = source.commands.run("python3 ~/writer.py", background=True, timeout=600)
    until(lambda: source.files.exists("/home/user/blocks"))
    seen: set[int] = set()
    for _ in range(5):
        snapshot = source.snapshot()
        copy = sandboxes.create(snapshot.snapshot_id)
        first, second = (int(copy.files.read(f"/home/user/{name}")) for name in ("first", "second"))
        content = copy.files.read("/home/user/blocks", format="bytes")
        numbers = [int(content[at : at + 16]) for at in range(0, len(content), 16)]

        assert first - second in (0, 1)
        assert numbers == sorted(numbers, reverse=True), "a later block is older, never newer"
        assert numbers[0] - numbers[-1] in (0, 1)
        assert first - numbers[0] in (0, 1)
        seen.add(first)
        copy.kill()
    assert len(seen) == 5, "it was written all the time"
    writer.kill()


def test_a_template_in_use_is_not_removed(api: httpx.Client, sandboxes: Sandboxes) -> None:
    source = sandboxes.create()
    source.snapshot("used:v1")
    user = sandboxes.create("used:v1")

    for reference in ("used", "used:v1", "local%2Fused%3Av1"):
        check_error(api.delete(f"/templates/{reference}"), 400, "in use")
    user.pause()
    check_error(api.delete("/templates/used"), 400, "in use by running or paused")
    user.kill()
    until(lambda: api.delete("/templates/local%2Fused%3Av1").status_code == 204)

    check_error(api.delete("/templates/used"), 404)
    check_error(api.post("/v2/sandboxes", json={"templateID": "used:v1"}), 404)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "other/mine"}, "namespace 'other' must match"),
        ({"name": "base"}, "stock template"),
        ({"name": "a b"}, "Invalid template reference"),
        ({"name": "a:b:c"}, "Invalid"),
        ({"name": 5}, "validation error"),
    ],
)
def test_names_of_snapshots_that_are_refused(
    api: httpx.Client, sandboxes: Sandboxes, body: dict[str, Any], text: str
) -> None:
    sandbox = sandboxes.create()

    check_error(api.post(f"/sandboxes/{sandbox.sandbox_id}/snapshots", json=body), 400, text)


def test_states_that_allow_no_snapshot_and_no_fork(api: httpx.Client, sandboxes: Sandboxes) -> None:
    sandbox = sandboxes.create()
    paths = [f"/sandboxes/{sandbox.sandbox_id}/{what}" for what in ("snapshots", "fork")]
    sandbox.pause()

    check_error(api.post(paths[0], json={}), 404)
    check_error(api.post(paths[1], json={}), 409, "paused")
    sandbox.kill()
    for path in paths:
        check_error(api.post(path, json={}), 404, sandbox.sandbox_id)


def test_a_name_again_is_a_new_build_of_the_same_template(
    api: httpx.Client, sandboxes: Sandboxes
) -> None:
    sandbox = sandboxes.create()
    run(sandbox, "echo 1 > ~/file")
    first = sandbox.snapshot("again:v1")
    run(sandbox, "echo 2 > ~/file")
    second = sandbox.snapshot("again:v1")
    other = sandbox.snapshot("again:v2")

    assert first.snapshot_id == second.snapshot_id == "local/again:v1"
    assert first.names == ["local/again:v1"]
    listed = api.get("/snapshots", params={"name": "again"}).json()
    assert [item["snapshotID"] for item in listed] == [other.snapshot_id, second.snapshot_id]
    assert api.get("/snapshots", params={"name": "again:default"}).json() == []
    assert run(sandboxes.create("again:v1"), "cat ~/file") == "2"
    for made in sandboxes.made:
        made.kill()
    until(lambda: api.delete("/templates/again").status_code == 204)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "nextToken=%21", "name=a%20b"]
)
def test_lists_of_snapshots_that_are_refused(api: httpx.Client, query: str) -> None:
    check_error(api.get(f"/snapshots?{query}"), 400)


@pytest.mark.parametrize(
    "body", [{"count": 0}, {"count": 101}, {"count": "x"}, {"timeout": -1}, {"timeout": 10**9}]
)
def test_forks_that_are_refused(
    api: httpx.Client, sandboxes: Sandboxes, body: dict[str, Any]
) -> None:
    sandbox = sandboxes.create()

    check_error(api.post(f"/sandboxes/{sandbox.sandbox_id}/fork", json=body), 400)


def test_snapshots_at_once_are_all_made(api: httpx.Client, sandboxes: Sandboxes) -> None:
    sandbox = sandboxes.create()
    run(sandbox, "echo kept > ~/file")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda number: sandbox.snapshot(f"many{number}"), range(4)))

    for number, snapshot in enumerate(made):
        assert run(sandboxes.create(snapshot.snapshot_id), "cat ~/file") == "kept"
        sandboxes.made.pop().kill()
        until(lambda name=f"many{number}": api.delete(f"/templates/{name}").status_code == 204)
