"""The bundled engine: started when needed, found again, told when it cannot be."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from sbx_jupyter.client.connection import bundled
from tests.engine_process import engine_process
from tests.server.test_terminals import Screen
from tests.waiting import async_until, until


async def test_info_without_an_engine_says_so_and_starts_nothing(api):
    status, info = await api("GET", "info")

    assert status == 200
    assert info["engine"] == {"state": "stopped"}
    assert info["isolation"] is None
    assert info["url_kind"] == "bundled"


async def test_a_call_without_an_engine_names_the_command_that_starts_one(api):
    status, body = await api("GET", "sandboxes")

    assert status == 503
    assert body["code"] == "unavailable"
    assert "jupyter sbx engine" in body["message"]

    _, info = await api("GET", "info")
    assert info["engine"] == {"state": "failed", "message": body["message"]}


def stop_engine(data_dir):
    """Stop the engine that this process started, and wait until it has tidied up."""
    if (running := bundled.find_engine(data_dir)) is not None:
        os.kill(running.pid, signal.SIGTERM)
        until(lambda: running.pid not in bundled._children)


@pytest.fixture
def own_data_dir(extension_settings):
    """A place where the extension may start an engine, which is stopped after the test."""
    data_dir = Path(tempfile.mkdtemp(prefix="sbx-server-start-", dir="/tmp"))
    extension_settings |= {"data_dir": str(data_dir), "auto_start": True}
    yield data_dir
    stop_engine(data_dir)
    shutil.rmtree(data_dir)


async def test_the_first_call_starts_the_engine_and_info_shows_it(own_data_dir, api):
    _, before = await api("GET", "info")

    listing = asyncio.create_task(api("GET", "sandboxes"))
    states = {before["engine"]["state"]}
    while not listing.done():
        _, info = await api("GET", "info")
        states.add(info["engine"]["state"])
    status, body = await listing
    _, after = await api("GET", "info")

    assert (status, body) == (200, {"sandboxes": [], "kernels": []})
    assert states >= {"stopped", "starting"}
    assert after["engine"]["state"] == "running"


@pytest.mark.long
async def test_many_first_calls_start_one_engine(own_data_dir, api):
    answers = await asyncio.gather(*[api("GET", "sandboxes") for _ in range(8)])

    assert {status for status, _ in answers} == {200}


@pytest.mark.long
async def test_a_panel_that_looks_does_not_bring_a_stopped_engine_back(own_data_dir, api):
    await api("POST", "sandboxes", body={})
    await asyncio.to_thread(stop_engine, own_data_dir)

    for _ in range(2):
        assert await api("GET", "sandboxes") == (200, {"sandboxes": [], "kernels": []})
        _, info = await api("GET", "info")
        assert info["engine"] == {"state": "stopped"}
    assert bundled.find_engine(own_data_dir) is None

    status, _ = await api("POST", "sandboxes", body={})
    _, info = await api("GET", "info")
    assert status == 201
    assert info["engine"] == {"state": "running"}


@pytest.fixture
def broken_data_dir(extension_settings, tmp_path):
    """A data directory that cannot be one."""
    occupied = tmp_path / "file"
    occupied.write_text("")
    extension_settings |= {"data_dir": str(occupied / "data"), "auto_start": True}


async def test_an_engine_that_cannot_start_says_why_and_info_repeats_it(broken_data_dir, api):
    status, body = await api("GET", "sandboxes")
    _, info = await api("GET", "info")

    assert (status, body["code"]) == (503, "unavailable")
    assert "Not a directory" in body["message"]
    assert info["engine"] == {"state": "failed", "message": body["message"]}


@pytest.fixture
def mortal_engine(extension_settings):
    with engine_process("server-crash") as running:
        extension_settings["data_dir"] = str(running.data_dir)
        yield running


@pytest.mark.long
async def test_an_engine_that_was_replaced_is_found_again(mortal_engine, api):
    _, view = await api("POST", "sandboxes", body={"timeout": 60})

    mortal_engine.kill()
    mortal_engine.start()
    status, listing = await api("GET", "sandboxes")

    assert status == 200
    assert [item["sandboxID"] for item in listing["sandboxes"]] == [view["sandboxID"]]
    assert (await api("GET", "sandboxes", view["sandboxID"], "metrics"))[0] == 200


@pytest.mark.long
async def test_a_terminal_goes_on_after_the_engine_was_replaced(mortal_engine, api, open_socket):
    _, view = await api("POST", "sandboxes", body={"timeout": 60})
    route = f"sandboxes/{view['sandboxID']}/terminal"
    before = await Screen(await open_socket(route)).started()
    await before.type(b"stty -echo; for i in $(seq 1 60); do echo n-$i-; sleep 0.05; done\n")
    await before.until(b"n-5-")

    mortal_engine.kill()
    closing = await before.end()
    assert closing is not None
    mortal_engine.start()
    after = await Screen(await open_socket(route, pid=before.pid, since=before.sequence)).started()
    await after.until(b"n-60-")

    assert closing["error"]["code"] == "unavailable"
    seen = (before.output + after.output).decode()
    assert [int(n) for n in re.findall(r"n-(\d+)-", seen)] == list(range(1, 61))


@pytest.fixture
def at_exit(extension_settings, monkeypatch):
    """What Python would call at the end of a server that stops its engine."""
    extension_settings["stop_with_server"] = True
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    return registered


@pytest.mark.long
@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_an_engine_stops_with_the_server_where_that_is_set(
    at_exit, own_data_dir, api, jp_serverapp, is_interrupted
):
    assert (await api("POST", "sandboxes", body={}))[0] == 201

    running = bundled.find_engine(own_data_dir)
    assert running is not None

    if is_interrupted:
        for call in at_exit:
            call()
    else:
        await jp_serverapp.extension_manager.stop_all_extensions()
        assert at_exit == []

    await async_until(lambda: running.pid not in bundled._children)
    assert bundled.find_engine(own_data_dir) is None


@pytest.mark.long
async def test_an_engine_goes_on_without_the_server(own_data_dir, api, jp_serverapp):
    assert (await api("GET", "sandboxes"))[0] == 200

    await jp_serverapp.extension_manager.stop_all_extensions()

    assert bundled.find_engine(own_data_dir) is not None
