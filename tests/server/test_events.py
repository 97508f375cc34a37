"""What changes reaches pages as server-sent events."""

from __future__ import annotations

import asyncio
import json

import pytest_asyncio
from tornado.httpclient import AsyncHTTPClient

from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.errors import UnauthenticatedError
from sbx_jupyter.server.deployments import changes
from sbx_jupyter.server.deployments.changes import MAX_WAITING, Changes, Page
from tests.waiting import async_until


class Seen:
    """The events that a page has got so far; they grow while the test runs."""

    def __init__(self) -> None:
        self.text = ""

    @property
    def events(self):
        """Name, data and id of each whole event."""
        found = []
        for block in self.text.split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line[:1] != ":")
            if "event" in fields:
                found.append((fields["event"], json.loads(fields["data"]), fields["id"]))
        return found

    def named(self, name):
        return [data for each, data, _ in self.events if each == name]

    async def until(self, name, check=lambda data: True):
        await async_until(lambda: any(check(data) for data in self.named(name)))
        return next(data for data in self.named(name) if check(data))


@pytest_asyncio.fixture
async def follow(http_server_client, jp_base_url, jp_http_port, jp_auth_header):
    """``await follow()``: what a page that connects now has seen, once it has seen something."""
    client = AsyncHTTPClient(force_instance=True)
    tasks = []

    async def begin(**headers):
        seen = Seen()

        def note(chunk):
            seen.text += chunk.decode()

        url = f"http://127.0.0.1:{jp_http_port}{jp_base_url}sbx/api/events"
        fetching = client.fetch(
            url,
            headers=jp_auth_header | headers,
            streaming_callback=note,
            request_timeout=0,
            raise_error=False,
        )
        tasks.append(asyncio.ensure_future(fetching))
        await async_until(lambda: seen.events)
        return seen

    yield begin
    client.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_page_gets_the_state_and_then_what_changes(with_engine, follow, api):
    _, first = await api("POST", "sandboxes", body={"timeout": 60})
    seen = await follow()
    state = seen.named("state")[0]
    assert first["sandboxID"] in [each["sandboxID"] for each in state["sandboxes"]]
    assert state["info"]["connection"]["name"] == "local"

    _, made = await api("POST", "sandboxes", body={"timeout": 60})
    sandbox_id = made["sandboxID"]
    await seen.until("sandbox", lambda data: data["sandboxID"] == sandbox_id)
    await api("PATCH", "sandboxes", sandbox_id, body={"name": "other"})
    await seen.until("sandbox", lambda data: data["metadata"].get("name") == "other")
    _, volume = await api("POST", "volumes", body={"name": "told-of"})
    await seen.until("changed", lambda data: data.get("volumes") == [volume["volumeID"]])
    await api("DELETE", "volumes", volume["volumeID"])
    await api("DELETE", "sandboxes", sandbox_id)
    await seen.until("ended", lambda data: data["sandboxID"] == sandbox_id)
    await api("DELETE", "sandboxes", first["sandboxID"])

    # one that comes back gets what it missed, and nothing twice
    _, renamed, known = next(e for e in seen.events if e[0] == "sandbox")
    again = await follow(**{"Last-Event-ID": known})
    await again.until("ended", lambda data: data["sandboxID"] == first["sandboxID"])
    assert not again.named("state")
    assert renamed not in again.named("sandbox")
    unknown = await follow(**{"Last-Event-ID": "another-7"})
    assert unknown.events[0][0] == "state"


async def test_ports_that_open_are_told_with_their_address(sandbox, follow, api, jp_serverapp):
    seen = await follow()
    app = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    commands = Commands(await app.deployments.default.runtime(sandbox))
    server = await commands.run("exec python3 -m http.server 8123", background=True)

    told = await seen.until("ports", lambda data: [p["port"] for p in data["ports"]] == [8123])
    _, listed = await api("GET", "sandboxes", sandbox, "ports")
    await server.kill()

    assert told["sandboxID"] == sandbox
    assert listed["ports"] == told["ports"]
    assert told["ports"][0]["address"] == "0.0.0.0"
    assert told["ports"][0]["url"] == f"{jp_serverapp.base_url}sbx/port/{sandbox}/8123/"
    await seen.until("ports", lambda data: not data["ports"])


async def test_following_is_no_activity(with_engine, follow, jp_serverapp):
    await follow()
    before = jp_serverapp.web_app.last_activity()

    seen = await follow()

    assert seen.events
    assert jp_serverapp.web_app.last_activity() == before


async def test_a_page_that_follows_starts_no_engine(follow, tmp_path):
    seen = await follow()

    assert seen.events[0][0] == "state"
    assert seen.events[0][1]["sandboxes"] == []
    assert not (tmp_path / "no-engine").exists()


def test_a_page_that_does_not_read_gets_the_state_instead_of_a_long_queue():
    page = Page()
    page.needs_state = False

    for _ in range(MAX_WAITING + 5):
        page.put("x")

    assert page.needs_state
    assert page.take() == ""


class Refusing:
    """A deployment that refuses the key until it is told not to."""

    def __init__(self):
        self.lists = 0
        self.refuses = True

    def is_awake(self):
        return True

    async def transport(self):
        raise UnauthenticatedError("another key")

    async def list_sandboxes(self):
        self.lists += 1
        if self.refuses:
            raise UnauthenticatedError("another key")
        return []

    async def call(self, use):
        raise UnauthenticatedError("another key")

    def note_failure(self, error, sandbox_id):
        pass


async def test_a_problem_is_told_once_until_a_list_succeeds(monkeypatch):
    monkeypatch.setattr(changes, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(changes, "_PAUSE", 0.01)
    deployment = Refusing()

    async def facts():
        return {}

    following = Changes(deployment, facts, lambda port, sandbox_id: {})
    page = following.add("")
    try:
        assert "another key" in await following.state(page)
        await async_until(lambda: deployment.lists > 5)
        assert page.take() == ""

        deployment.refuses = False
        await async_until(lambda: page.take().endswith("event: problem\ndata: null\n\n"))
    finally:
        await following.aclose()


async def test_the_end_of_a_sandbox_that_only_a_list_named_is_told(monkeypatch):
    monkeypatch.setattr(changes, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(changes, "_PAUSE", 0.01)
    deployment = Refusing()
    deployment.refuses = False

    async def facts():
        return {}

    following = Changes(deployment, facts, lambda port, sandbox_id: {})
    page = following.add("")
    told: list[str] = []
    try:
        await following.state(page)
        following.note_listed({"brief"})

        await async_until(lambda: told.append(page.take()) or '"brief"' in "".join(told))

        lists = deployment.lists
        await async_until(lambda: deployment.lists > lists + 2)
        told.append(page.take())
        assert "".join(told).count("event: ended") == 1
    finally:
        await following.aclose()
