"""Sandboxes as the front end sees them, against a real engine."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.waiting import async_until

UNKNOWN = "i00000000000000000000"

pytestmark = pytest.mark.usefixtures("with_engine")


async def test_info_tells_the_isolation_once_the_engine_was_used(api, sandbox):
    async def info_with_isolation():
        _, info = await api("GET", "info")
        return None if info["isolation"] is None else info

    info = await async_until(info_with_isolation)

    assert info["engine"] == {"state": "running"}
    assert info["isolation"]["tier"] in ("namespaces", "landlock", "none")
    assert isinstance(info["isolation"]["missing"], list)
    assert info["isolation"]["network"] in ("proxy", "none")


async def test_a_sandbox_lives_and_dies(api):
    status, view = await api(
        "POST",
        "sandboxes",
        body={"timeout": 100, "metadata": {"for": "test"}, "name": "mine", "envs": {"A": "1"}},
    )
    one = ("sandboxes", view["sandboxID"])

    assert status == 201
    assert view["state"] == "running"
    assert view["metadata"] == {"for": "test", "name": "mine"}
    assert view["cpuCount"] > 0
    assert view["memoryMB"] > 0

    _, listing = await api("GET", "sandboxes")
    assert view["sandboxID"] in [item["sandboxID"] for item in listing["sandboxes"]]
    assert (await api("GET", *one)) == (200, view)

    assert (await api("POST", *one, "timeout", body={"timeout": 1000}))[0] == 204
    _, longer = await api("GET", *one)
    assert _time(longer["endAt"]) - _time(view["endAt"]) > dt.timedelta(seconds=600)

    assert (await api("DELETE", *one))[0] == 204
    status, body = await api("GET", *one)
    assert (status, body["code"]) == (404, "not_found")


async def test_a_paused_sandbox_is_listed_and_resumed(api, sandbox):
    assert (await api("POST", "sandboxes", sandbox, "pause"))[0] == 204
    _, view = await api("GET", "sandboxes", sandbox)
    assert view["state"] == "paused"

    status, view = await api("POST", "sandboxes", sandbox, "connect", body={"timeout": 60})

    assert status == 200
    assert view["state"] == "running"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "connect"),
        ("POST", "pause"),
        ("GET", "metrics"),
        ("GET", "terminals"),
        ("GET", "files?path=/x"),
        ("POST", "files?path=/x"),
        ("POST", "rpc/filesystem.Filesystem/ListDir"),
    ],
)
async def test_an_unknown_sandbox_is_404_with_a_sentence(api, method, path):
    path, _, query = path.partition("?")
    params = dict([query.split("=")]) if query else {}
    parts = path.split("/") if path else []

    status, body = await api(method, "sandboxes", UNKNOWN, *parts, params=params)

    assert status == 404
    assert body["code"] == "not_found"
    assert UNKNOWN in body["message"]


@pytest.mark.parametrize("sandbox_id", ["..", "a b", "I1", "x/../y", "-", "a-b-c"])
async def test_what_cannot_be_an_id_never_reaches_the_engine(api, sandbox_id):
    status, _ = await api("GET", "sandboxes", sandbox_id)

    assert status in (400, 404)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"{", "cannot decode the body"),
        (b"[]", "cannot decode the body"),
        ({"timeout": "soon"}, "timeout"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"envs": ["A=1"]}, "envs"),
    ],
)
async def test_a_wrong_body_is_named(api, body, part):
    status, answer = await api("POST", "sandboxes", body=body)

    assert (status, answer["code"]) == (400, "invalid_argument")
    assert part in answer["message"]


async def test_an_unknown_template_is_told(api):
    status, answer = await api("POST", "sandboxes", body={"template": "no-such-template"})

    assert status in (400, 403, 404)
    assert "no-such-template" in answer["message"]


async def test_a_reading_and_its_history_come_through(api, sandbox):
    status, reading = await api("GET", "sandboxes", sandbox, "metrics")

    assert status == 200
    assert reading["mem_total"] > 0

    status, history = await api(
        "GET", "sandboxes", sandbox, "metrics", "history", params={"start": 0, "end": reading["ts"]}
    )
    assert status == 200
    assert isinstance(history, list)


async def test_a_time_that_is_none_is_refused(api, sandbox):
    status, answer = await api(
        "GET", "sandboxes", sandbox, "metrics", "history", params={"start": "yesterday"}
    )

    assert (status, answer["code"]) == (400, "invalid_argument")
    assert "start" in answer["message"]


async def test_the_filesystem_is_reached_by_unary_calls(call):
    assert (await call("MakeDir", {"path": "/home/user/work"}))[0] == 200
    _, stat = await call("Stat", {"path": "work"})
    assert stat["entry"]["path"] == "/home/user/work"

    assert (await call("Move", {"source": "work", "destination": "done"}))[0] == 200
    _, listing = await call("ListDir", {"path": "/home/user", "depth": 1})
    assert "done" in [entry["name"] for entry in listing["entries"]]

    assert (await call("Remove", {"path": "done"})) == (200, {})
    status, error = await call("Stat", {"path": "done"})
    assert (status, error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("service", "method"),
    [
        ("process.Process", "Start"),
        ("process.Process", "SendInput"),
        ("filesystem.Filesystem", "WatchDir"),
        ("filesystem.Filesystem", "__class__"),
        ("init", "init"),
    ],
)
async def test_only_the_listed_calls_are_passed_through(call, service, method):
    status, _ = await call(method, {}, service=service)

    assert status in (404, 501)


@pytest.fixture
def with_defaults(extension_settings):
    extension_settings |= {"default_metadata": {"owner": "ada"}, "default_timeout": 77}


@pytest.mark.usefixtures("with_defaults")
async def test_the_defaults_of_the_server_are_used(api):
    _, view = await api("POST", "sandboxes", body={"metadata": {"more": "1"}})
    await api("DELETE", "sandboxes", view["sandboxID"])

    assert view["metadata"] == {"owner": "ada", "more": "1"}
    lasts = _time(view["endAt"]) - _time(view["startedAt"])
    assert 70 < lasts.total_seconds() < 80


@pytest.fixture
def configured(extension_settings, engine):
    """The engine as a deployment that somebody else runs would be named."""
    url = engine.connection.url
    extension_settings |= {"api_url": url + "/", "api_key": engine.connection.api_key}
    extension_settings["data_dir"] = ""


@pytest.fixture
def with_a_wrong_key(configured, extension_settings):
    extension_settings["api_key"] = "e2b_" + "0" * 40


@pytest.fixture
def without_a_key(extension_settings, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    extension_settings |= {"api_url": "http://127.0.0.1:9", "data_dir": ""}


@pytest.mark.usefixtures("configured")
async def test_one_setting_switches_to_another_deployment(api):
    _, before = await api("GET", "info")
    status, view = await api("POST", "sandboxes", body={})
    assert status == 201
    listing = await api(
        "POST",
        "sandboxes",
        view["sandboxID"],
        "rpc",
        "filesystem.Filesystem",
        "ListDir",
        body={"path": "/"},
    )
    await api("DELETE", "sandboxes", view["sandboxID"])

    assert before["engine"] == {"state": "remote"}
    assert before["url_kind"] == "configured"
    assert listing[0] == 200


@pytest.mark.usefixtures("with_a_wrong_key")
async def test_a_refused_key_is_not_the_browsers_fault(api):
    status, body = await api("GET", "sandboxes")

    assert status == 502
    assert body["code"] == "unauthenticated"


@pytest.mark.usefixtures("without_a_key")
async def test_a_deployment_without_a_key_says_which_setting_is_missing(api):
    status, body = await api("GET", "sandboxes")

    assert status == 502
    assert "c.SbxExtension.api_key" in body["message"]


def _time(text):
    return dt.datetime.fromisoformat(text)


async def test_a_sandbox_gets_volumes_and_is_paused_at_its_end(with_engine, api):
    _, volume = await api("POST", "volumes", body={"name": "kept"})
    mount = {"name": "kept", "path": "/mnt/kept"}
    options = {"volumes": [mount], "onTimeout": "pause", "internet": False}
    status, made = await api("POST", "sandboxes", body=options)
    try:
        refused, body = await api("POST", "sandboxes", body={"onTimeout": "sleep"})

        assert (status, made["volumeMounts"]) == (201, [mount])
        assert (refused, body["code"]) == (400, "invalid_argument")
    finally:
        await api("DELETE", "sandboxes", made["sandboxID"])
        await api("DELETE", "volumes", volume["volumeID"])
