"""Changes in a directory reach the browser."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("with_engine")


@pytest.fixture
def watch(open_socket, sandbox):
    async def begin(path, **params):
        socket = await open_socket(f"sandboxes/{sandbox}/watch", path=path, **params)
        assert json.loads(await socket.read_message()) == {"start": {}}
        return socket

    return begin


async def event_named(socket, name, kind):
    while True:
        event = json.loads(await socket.read_message())
        if (event["name"], event["type"]) == (name, kind):
            return event


async def test_a_new_file_and_its_end_are_told(watch, call, api, sandbox):
    socket = await watch("/home/user")

    await api("POST", "sandboxes", sandbox, "files", params={"path": "seen"}, body=b"1")
    await event_named(socket, "seen", "EVENT_TYPE_CREATE")

    await call("Remove", {"path": "seen"})
    await event_named(socket, "seen", "EVENT_TYPE_REMOVE")


async def test_a_recursive_watch_sees_below(watch, call):
    await call("MakeDir", {"path": "deep/er"})
    socket = await watch("/home/user", recursive="true")

    await call("MakeDir", {"path": "deep/er/est"})

    await event_named(socket, "deep/er/est", "EVENT_TYPE_CREATE")


async def test_a_missing_directory_is_told_and_closes(open_socket, sandbox):
    socket = await open_socket(f"sandboxes/{sandbox}/watch", path="/no/such")

    assert json.loads(await socket.read_message())["error"]["code"] == "not_found"
    assert await socket.read_message() is None
    assert socket.close_code == 4404


async def test_the_end_of_the_sandbox_ends_the_watch(watch, api, sandbox):
    socket = await watch("/home/user")

    await api("DELETE", "sandboxes", sandbox)

    last = json.loads(await socket.read_message())
    assert last["error"]["code"] in ("unavailable", "not_found")
    assert await socket.read_message() is None
