"""The user's shared engine: started on demand, once, and found again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, Sandbox
from sbx_jupyter.client.connection import bundled
from sbx_jupyter.errors import UnauthenticatedError, UnavailableError
from sbx_jupyter.protocol.locations import ConnectionFile, connection_file_of, log_file_of
from tests.waiting import until

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def data_dir(monkeypatch):
    """A data directory of our own, whose engine is stopped afterwards."""
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "E2B_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(prefix="sbx-bundled-", dir="/tmp") as folder:
        monkeypatch.setenv("SBX_DATA_DIR", folder)
        yield Path(folder)
        stop(Path(folder))
        until(lambda: not are_files_open(folder), message="an engine that did not start goes on")


def stop(data_dir):
    found = bundled.read_connection_file(connection_file_of(data_dir))
    if found is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    until(
        lambda: bundled.find_engine(data_dir) is None and not is_alive(found.pid),
        message="the engine does not stop",
    )


def are_files_open(folder):
    """Whether a process has files there open, as an engine and its zygote have the log."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(descriptor).startswith(f"{folder}/"):
                return True
    return False


def is_alive(pid):
    """Whether there is such a process, be it a defunct one."""
    return Path(f"/proc/{pid}").exists()


async def test_the_first_sandbox_starts_the_engine_and_the_second_finds_it(data_dir):
    async with await AsyncSandbox.create(timeout=600) as sandbox:
        assert (await sandbox.commands.run("echo hi")).stdout == "hi\n"
    first = bundled.find_engine(data_dir)
    assert first is not None

    async with await AsyncSandbox.create(timeout=600):
        assert bundled.find_engine(data_dir) == first

    assert connection_file_of(data_dir).stat().st_mode & 0o777 == 0o600
    command = Path(f"/proc/{first.pid}/cmdline").read_bytes()
    assert first.api_key.encode() not in command
    assert os.getsid(first.pid) == first.pid


@pytest.mark.long
def test_the_engine_gets_only_what_it_needs_of_the_environment(data_dir, monkeypatch):
    secrets = ("JUPYTERHUB_API_TOKEN", "JUPYTER_TOKEN", "JPY_API_TOKEN", "E2B_API_KEY")
    others = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PIP_INDEX_URL", "UNKNOWN")
    for name in secrets + others:
        monkeypatch.setenv(name, "hidden-value")
    needed = {"LC_ALL": "C.UTF-8", "https_proxy": "http://127.0.0.1:9", "NO_PROXY": "localhost"}
    needed |= {"XDG_CACHE_HOME": str(data_dir / "cache"), "SBX_CA_FILE": "/x", "TZ": "UTC"}
    for name, value in needed.items():
        monkeypatch.setenv(name, value)

    engine = bundled.ensure_engine(data_dir)

    content = Path(f"/proc/{engine.pid}/environ").read_bytes()
    found = dict(item.split("=", 1) for item in content.decode().split("\0") if item)
    assert b"hidden-value" not in content
    assert not {*secrets, *others} & found.keys()
    assert found.items() >= needed.items()
    assert (found["PATH"], found["HOME"]) == (os.environ["PATH"], os.environ["HOME"])
    assert found["SBX_DATA_DIR"] == str(data_dir)


@pytest.mark.long
def test_starters_at_the_same_time_share_one_engine(data_dir):
    code = (
        "from sbx_jupyter.client.connection.bundled import ensure_engine;"
        "e = ensure_engine(); print(e.pid, e.url)"
    )
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    starters = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        for _ in range(4)
    ]

    said = {starter.communicate(timeout=120)[0] for starter in starters}

    assert len(said) == 1
    assert said != {b""}


@pytest.mark.long
def test_no_defunct_process_of_an_engine_stays(data_dir):
    running = bundled.ensure_engine(data_dir)
    assert Path(f"/proc/{running.pid}/stat").read_text().split()[3] == str(os.getpid())

    os.kill(running.pid, signal.SIGKILL)

    until(lambda: not is_alive(running.pid))
    bundled.ensure_engine(data_dir)  # takes over what was started ahead, and ends it with itself


@pytest.mark.long
def test_a_file_left_by_a_dead_engine_is_not_believed(data_dir):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = ConnectionFile(url="http://127.0.0.1:1", api_key="e2b_00", pid=dead.pid, version="0")
    connection_file_of(data_dir).write_bytes(msgspec.json.encode(left))
    assert bundled.find_engine(data_dir) is None
    with pytest.raises(UnavailableError, match="no engine is running"):
        ConnectionConfig.from_env()

    with Sandbox.create(timeout=600) as sandbox:
        assert sandbox.is_running()

    found = bundled.find_engine(data_dir)
    assert found is not None
    assert found.pid != dead.pid


def test_a_file_of_a_live_process_that_does_not_answer_is_not_believed(data_dir):
    left = ConnectionFile(url="http://127.0.0.1:1", api_key="e2b_00", pid=os.getpid(), version="0")
    connection_file_of(data_dir).write_bytes(msgspec.json.encode(left))
    try:
        assert bundled.find_engine(data_dir) is None
    finally:
        connection_file_of(data_dir).unlink()


@pytest.mark.long
def test_an_engine_that_cannot_start_says_where_its_log_is(data_dir, monkeypatch):
    (data_dir / "engine.json").mkdir()
    monkeypatch.setattr(bundled, "_LOST_RACE_PATIENCE", 0.1)

    try:
        with pytest.raises(UnavailableError, match="did not start") as caught:
            bundled.ensure_engine(data_dir)
    finally:
        (data_dir / "engine.json").rmdir()

    assert str(log_file_of(data_dir)) in str(caught.value)


def test_a_deployment_of_the_environment_wins(data_dir, monkeypatch):
    monkeypatch.setenv("E2B_DOMAIN", "sandboxes.example")
    with pytest.raises(UnauthenticatedError):
        ConnectionConfig.from_env()
    monkeypatch.setenv("E2B_API_KEY", "e2b_00")

    config = ConnectionConfig.from_env()

    assert config.api_url == "https://api.sandboxes.example"
    assert config.runtime_url("iabc", 49983) == "https://49983-iabc.sandboxes.example"


def test_a_key_alone_sends_nothing_off_this_machine(data_dir, monkeypatch):
    monkeypatch.setenv("E2B_API_KEY", "e2b_00")

    with pytest.raises(UnavailableError):
        ConnectionConfig.from_env()


@pytest.fixture
def client_only(monkeypatch):
    """An environment that has the client's dependencies and not the engine's."""
    monkeypatch.setattr(bundled, "find_spec", lambda name: None if name == "tornado" else name)


def test_an_engine_elsewhere_is_started_by_its_command(client_only, monkeypatch, tmp_path):
    command = tmp_path / "jupyter-sbx"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/somewhere")

    assert bundled.engine_command() == [str(command)]
    assert "PYTHONPATH" not in bundled._environment(own=False)


def test_a_missing_engine_is_told_in_one_line(client_only, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=r"tornado is not installed.*no command"):
        bundled.ensure_engine(tmp_path / "data", timeout=5)


def test_the_client_imports_httpx_and_msgspec_only(tmp_path):
    refused = ("tornado", "traitlets", "jupyter_client", "jupyter_core", "cryptography", "IPython")
    code = f"import sys\nfor name in {refused!r}: sys.modules[name] = None\n"
    code += "from sbx_jupyter.client import AsyncSandbox, PlatformClient, Sandbox\n"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
