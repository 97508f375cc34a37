"""Logs, changes, processes, volumes and secrets through the Jupyter server."""

from __future__ import annotations

import json

import pytest

from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.server.routes import HANDLERS
from sbx_jupyter.server.runtime_proxy import METHODS
from tests.waiting import async_until

WITHOUT_BODY = {"/volumes/{volume_id}/dir", "/sandboxes/{sandbox_id}/pause"}
"""Routes whose body is none, a file, or that of the runtime API."""


async def test_a_log_has_the_newest_entries_in_order(sandbox, api):
    status, body = await api("GET", "sandboxes", sandbox, "logs")
    _, newest = await api("GET", "sandboxes", sandbox, "logs", params={"limit": "1"})

    assert status == 200
    assert "Sandbox started" in [entry["message"] for entry in body["logs"]]
    times = [entry["timestamp"] for entry in body["logs"]]
    assert times == sorted(times)
    assert newest["logs"] == body["logs"][-1:]


@pytest.mark.parametrize("limit", ["x", "-1", "1" * 30])
async def test_a_limit_that_is_none_is_refused(sandbox, api, limit):
    status, body = await api("GET", "sandboxes", sandbox, "logs", params={"limit": limit})

    assert (status, body["code"]) == (400, "invalid_argument")


async def test_a_diff_names_what_was_written(sandbox, api, jp_fetch):
    await jp_fetch(
        "sbx", "api", "sandboxes", sandbox, "files",
        method="POST", body=b"x", params={"path": "/home/user/new.txt"},
    )  # fmt: skip

    status, body = await api("GET", "sandboxes", sandbox, "diff")

    assert status == 200
    changed = {change["path"]: change["change"] for change in body["changes"]}
    assert changed["/home/user/new.txt"] == "added"


async def test_a_changed_file_is_read_as_it_was(sandbox, api, jp_fetch):
    await jp_fetch(
        "sbx", "api", "sandboxes", sandbox, "files",
        method="POST", body=b"mine", params={"path": "/etc/hostname", "user": "root"},
    )  # fmt: skip
    path = {"path": "/etc/hostname"}
    answer = await jp_fetch("sbx", "api", "sandboxes", sandbox, "diff", "before", params=path)
    status, body = await api(
        "GET", "sandboxes", sandbox, "diff", "before", params={"path": "/home/user/none"}
    )

    assert answer.body not in (b"", b"mine")
    assert answer.headers["Content-Disposition"] == "attachment"
    assert (status, body["code"]) == (404, "not_found")


async def test_readings_of_several_sandboxes_come_in_one_answer(sandbox, api):
    async def read(ids: str):
        return await api("GET", "metrics", params={"sandboxes": ids})

    _, none = await read("")
    _, found = await read(f"{sandbox},i{'0' * 20}")
    status, refused = await read(",".join([sandbox] * 101))

    assert none == {"readings": {}}
    assert set(found["readings"]) <= {sandbox}
    assert (status, refused["code"]) == (400, "invalid_argument")


async def test_processes_are_listed_without_variables(sandbox, api, jp_serverapp):
    app = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    commands = Commands(await app.deployments.default.runtime(sandbox))
    started = await commands.run("sleep 600", background=True, envs={"TOKEN": "hush"})

    _, body = await api("GET", "sandboxes", sandbox, "processes")
    await started.kill()

    [shown] = [each for each in body["processes"] if each["pid"] == started.pid]
    assert shown["started"]
    assert shown["name"] == "sleep"
    assert shown["memoryBytes"] > 0
    assert "hush" not in json.dumps(body)


async def test_any_process_gets_a_signal(sandbox, api, jp_serverapp):
    app = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    commands = Commands(await app.deployments.default.runtime(sandbox))
    started = await commands.run("sleep 600; true", background=True)

    async def children():
        _, body = await api("GET", "sandboxes", sandbox, "processes")
        return [each for each in body["processes"] if each.get("parent") == started.pid]

    [child] = await async_until(children)
    assert (child["started"], child["args"]) == (False, ["sleep", "600"])
    path = ("sandboxes", sandbox, "processes", str(child["pid"]), "signal")
    sent, _ = await api("POST", *path, body={"signal": "KILL"})
    wrong, _ = await api("POST", *path, body={"signal": "PWR"})
    gone, refused = await api("POST", *path[:3], "999999", "signal", body={})
    await started.wait()

    assert (sent, wrong) == (204, 400)
    assert (gone, refused["code"]) == (404, "not_found")


async def test_volumes_are_made_listed_and_removed_without_tokens(with_engine, api):
    status, made = await api("POST", "volumes", body={"name": "through-jupyter"})
    _, listed = await api("GET", "volumes")
    removed, _ = await api("DELETE", "volumes", made["volumeID"])
    again, body = await api("DELETE", "volumes", made["volumeID"])

    assert status == 201
    assert set(made) == {"volumeID", "name"}
    [shown] = [each for each in listed["volumes"] if each["volumeID"] == made["volumeID"]]
    assert (shown["name"], shown["sandboxes"]) == ("through-jupyter", [])
    assert removed == 204
    assert (again, body["code"]) == (404, "not_found")


async def test_files_of_a_volume_are_written_listed_read_and_removed(with_engine, api):
    _, made = await api("POST", "volumes", body={"name": "with-files"})
    files, folder = ("volumes", made["volumeID"], "files"), ("volumes", made["volumeID"], "dir")
    at = {"params": {"path": "/data/a b.txt"}}

    await api("POST", *folder, params={"path": "/data"})
    written, entry = await api("POST", *files, body=b"x" * 100_000, **at)
    _, listed = await api("GET", *folder, params={"path": "/data"})
    read, content = await api("GET", *files, **at)
    removed, _ = await api("DELETE", *files, **at)
    gone, _ = await api("GET", *files, **at)
    root, _ = await api("DELETE", *files, params={"path": "/"})
    outside, _ = await api("GET", *files, params={"path": "/../../engine.db"})
    await api("DELETE", "volumes", made["volumeID"])

    assert (written, entry["size"]) == (200, 100_000)
    assert [(each["name"], each["type"]) for each in listed["entries"]] == [("a b.txt", "file")]
    assert (read, content) == (200, b"x" * 100_000)
    assert (removed, gone, root, outside) == (204, 404, 400, 404)


async def test_secrets_are_written_and_never_read(with_engine, api):
    status, made = await api("POST", "secrets", body={"name": "jupyter-key", "value": "hush"})
    _, updated = await api("POST", "secrets", "jupyter-key", body={"value": "hush-hush"})
    _, listed = await api("GET", "secrets")
    removed, _ = await api("DELETE", "secrets", "jupyter-key")
    again, body = await api("DELETE", "secrets", "jupyter-key")

    assert status == 201
    assert (made["currentVersion"], updated["currentVersion"]) == (1, 2)
    assert "hush" not in json.dumps([made, updated, listed])
    assert removed == 204
    assert (again, body["code"]) == (404, "not_found")


async def test_the_description_has_every_route(api):
    status, described = await api("GET", "openapi.json")

    assert status == 200
    assert described["openapi"].startswith("3.1")
    operations = [(path, verb) for path, item in described["paths"].items() for verb in item]
    # The calls of the runtime API that are passed on have one route.
    assert len({path for path, _ in operations}) == len(HANDLERS) - 1 + len(METHODS)
    for path, verb in operations:
        operation = described["paths"][path][verb]
        assert operation["summary"].endswith(".")
        assert operation["x-jupyter-resource"] == "sandboxes"
        names = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert names == {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert len(operation["responses"]) > 1, f"{verb} {path} names no answer"
        if verb in ("post", "patch") and "requestBody" not in operation:
            assert path in WITHOUT_BODY, path
