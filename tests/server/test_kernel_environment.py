"""What kernels of this server see: unmodified clients work there without configuration."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from sbx_jupyter.client.connection import bundled
from sbx_jupyter.client.connection.environment import NAMES
from sbx_jupyter.protocol.access import API_KEY_HEADER
from tests.server.test_engine_start import stop_engine
from tests.waiting import PATIENCE, async_until

pytestmark = pytest.mark.long

UNMODIFIED = """
from e2b_code_interpreter import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.commands.run("echo from $((20 + 1))").stdout, end="")
    print(sandbox.run_code("6 * 7").text)
    print(sandbox.get_host(8000))
    sandbox.kill()
"""


@pytest.fixture
def bare(monkeypatch):
    """No deployment in the environment of the server."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def own_data_dir(extension_settings, bare):
    """A place where the extension may start an engine, which is stopped after the test."""
    data_dir = Path(tempfile.mkdtemp(prefix="sbx-kernels-", dir="/tmp"))
    extension_settings |= {"data_dir": str(data_dir), "auto_start": True}
    yield data_dir
    stop_engine(data_dir)
    shutil.rmtree(data_dir)


async def run(program):
    """Run Python code with the environment that kernels inherit; returns its output."""
    finished = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ.copy(),
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def ask(path="/v2/sandboxes", key=None):
    headers = {API_KEY_HEADER: key or os.environ["E2B_API_KEY"]}
    return httpx.get(os.environ["E2B_API_URL"] + path, headers=headers, timeout=60, trust_env=False)


async def test_an_unmodified_client_works_and_starts_the_engine(own_data_dir, jp_serverapp):
    assert bundled.find_engine(own_data_dir) is None
    assert list(own_data_dir.iterdir()) == []

    first, second, host = (await run(UNMODIFIED)).splitlines()

    assert (first, second) == ("from 21", "42")
    assert host.startswith("8000-")
    assert host.endswith(f".{os.environ['E2B_DOMAIN']}")
    assert bundled.find_engine(own_data_dir) is not None


@pytest.mark.timeout(150)  # three engines, one after the other
async def test_the_address_stays_valid_after_a_stop_and_after_a_crash(own_data_dir, jp_serverapp):
    before = dict(os.environ)
    assert (await asyncio.to_thread(ask)).json() == []

    for number in (signal.SIGTERM, signal.SIGKILL):
        running = bundled.find_engine(own_data_dir)
        assert running is not None
        os.kill(running.pid, number)
        await async_until(lambda pid=running.pid: bundled.find_engine(own_data_dir) is None)

        assert (await asyncio.to_thread(ask)).status_code == 200

    assert {name: os.environ[name] for name in NAMES} == {name: before[name] for name in NAMES}


async def test_the_key_of_kernels_is_for_sandboxes_only(own_data_dir, jp_serverapp):
    listed = await asyncio.to_thread(ask)
    engine = bundled.find_engine(own_data_dir)
    assert engine is not None

    refused = [await asyncio.to_thread(ask, path) for path in ("/engine/disk", "/engine/metrics")]

    assert listed.status_code == 200
    assert os.environ["E2B_API_KEY"] != engine.api_key
    assert [answer.status_code for answer in refused] == [403, 403]
    assert "sandboxes only" in refused[0].json()["message"]
    names = [path.name for path in (own_data_dir / "session-keys").iterdir()]
    assert all(os.environ["E2B_API_KEY"] not in name for name in names)


async def test_the_key_ends_with_the_server(own_data_dir, jp_serverapp):
    assert (await asyncio.to_thread(ask)).status_code == 200
    engine = bundled.find_engine(own_data_dir)
    assert engine is not None
    key = os.environ["E2B_API_KEY"]

    await jp_serverapp.extension_manager.stop_all_extensions()

    answer = httpx.get(
        engine.url + "/v2/sandboxes", headers={API_KEY_HEADER: key}, timeout=PATIENCE
    )
    assert answer.status_code == 401
    assert not set(NAMES) & set(os.environ)
    assert list((own_data_dir / "session-keys").iterdir()) == []


async def test_a_kernel_inherits_the_variables(own_data_dir, jp_serverapp):
    kernel_id = await jp_serverapp.kernel_manager.start_kernel(kernel_name="python3")
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    pid = manager.provisioner.pid

    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")

    assert f"E2B_API_KEY={os.environ['E2B_API_KEY']}".encode() in environment
    assert f"E2B_API_URL={os.environ['E2B_API_URL']}".encode() in environment
    assert bundled.find_engine(own_data_dir) is None
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id, now=True)


@pytest.fixture
def own_deployment(bare):
    bare.setenv("E2B_API_KEY", "e2b_abc")


async def test_a_deployment_of_the_users_own_is_left_alone(
    own_data_dir, own_deployment, jp_serverapp
):
    assert os.environ["E2B_API_KEY"] == "e2b_abc"
    assert "E2B_API_URL" not in os.environ


@pytest.fixture
def switched_off(extension_settings, bare):
    extension_settings["kernel_environment"] = False


async def test_it_can_be_switched_off(switched_off, jp_serverapp):
    assert not set(NAMES) & set(os.environ)


async def test_without_an_engine_clients_are_told_why(bare, jp_serverapp):
    answer = await asyncio.to_thread(ask)

    assert answer.status_code == 503
    assert "auto_start" in answer.json()["message"]


@pytest.fixture
def with_remote_default(extension_settings, bare):
    extension_settings["connections"] = {
        "lab": {
            "api_url": "https://lab.example",
            "domain": "lab.example",
            "api_key": "e2b_ab",
        }
    }


async def test_new_kernels_follow_the_default_connection(with_remote_default, api):
    local = os.environ["E2B_API_URL"]

    await api("PATCH", "connections", body={"default": "lab"})
    remote = {name: os.environ.get(name) for name in NAMES}
    await api("PATCH", "connections", body={"default": "local"})

    assert remote["E2B_API_URL"] == "https://lab.example"
    assert remote["E2B_API_KEY"] == "e2b_ab"
    assert remote["E2B_DOMAIN"] == "lab.example"
    assert remote["E2B_SANDBOX_URL"] is None
    assert os.environ["E2B_API_URL"] == local
