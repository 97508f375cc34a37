"""How the engine's process starts, fails, stops and is commanded."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.engine_process import CHECKOUT, start_engine
from tests.waiting import PATIENCE, until


def popen_engine(
    data_dir: Path, *options: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """An engine that will not come to serve; what it says is read from its pipe."""
    command = [sys.executable, "-m", "sbx_jupyter.cli.main", "engine"]
    command += [] if "--port" in options else ["--port", "0"]
    command += ["--data-dir", str(data_dir), "--connection-file", str(data_dir / "engine.json")]
    return subprocess.Popen(
        [*command, *options],
        cwd=CHECKOUT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def fail(data_dir: Path, *options: str, environment: dict[str, str] | None = None) -> str:
    """What an engine that cannot start says."""
    process = popen_engine(data_dir, *options, environment=environment)
    _, errors = process.communicate(timeout=PATIENCE)
    text = errors.decode()
    assert process.returncode == 1, text
    assert "Traceback" not in text
    assert len(text.splitlines()) == 1, text
    return text


def command(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sbx_jupyter.cli.main", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "SBX_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("content", ["c.SbxEngine.isolation = =", "import no_such_module"])
def test_an_engine_whose_configuration_cannot_be_read_does_not_start_without_it(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "jupyter_sbx_config.py").write_text(content)

    said = fail(tmp_path / "data", environment={"JUPYTER_CONFIG_DIR": str(tmp_path)})

    assert "the configuration file jupyter_sbx_config fails: " in said


def test_a_recovery_of_nothing_is_refused(tmp_path: Path) -> None:
    done = command(tmp_path / "missing", "recover")

    assert done.returncode == 1
    assert "there is no data directory" in done.stderr
    assert not (tmp_path / "missing").exists()


def test_the_connection_file_is_private_and_names_a_serving_engine(tmp_path: Path) -> None:
    engine = start_engine(tmp_path / "d", "--pool-size", "0")
    try:
        found = json.loads(engine.connection_file.read_bytes())
        assert set(found) == {"url", "api_key", "pid", "version"}
        assert found["pid"] == engine.pid
        for path in (engine.connection_file, tmp_path / "d" / "api_key"):
            assert path.stat().st_mode & 0o777 == 0o600
        assert found["api_key"].encode() not in Path(f"/proc/{found['pid']}/cmdline").read_bytes()
        assert (
            httpx.get(f"{engine.url}/health", trust_env=False, timeout=PATIENCE).status_code == 204
        )
    finally:
        assert engine.stop() == 0
    assert not engine.connection_file.exists()


@pytest.mark.long
def test_an_engine_with_a_connection_file_elsewhere_is_found_too(tmp_path: Path) -> None:
    elsewhere = tmp_path / "other" / "connection.json"
    engine = start_engine(tmp_path / "d", "--pool-size=0", f"--connection-file={elsewhere}")
    try:
        assert elsewhere.read_bytes() == engine.connection_file.read_bytes()
        said = command(tmp_path / "d", "info", "--json")
        assert json.loads(said.stdout)["pid"] == engine.pid, said.stderr
    finally:
        assert engine.stop() == 0
    assert not engine.connection_file.exists()
    assert not elsewhere.exists()


def test_port_and_key_stay_and_sandboxes_are_adopted_after_a_hang_up(tmp_path: Path) -> None:
    first = start_engine(tmp_path / "d", "--pool-size", "0")
    headers = {"X-API-Key": first.key}
    body = {"templateID": "base"}
    made = httpx.post(
        f"{first.url}/v2/sandboxes", json=body, headers=headers, trust_env=False, timeout=PATIENCE
    )
    assert first.stop(signal.SIGHUP) == 0

    second = start_engine(tmp_path / "d", "--pool-size", "0")
    try:
        listed = httpx.get(
            f"{second.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
        ).json()
    finally:
        assert second.stop(signal.SIGINT) == 0

    assert (second.url, second.key) == (first.url, first.key)
    assert [each["sandboxID"] for each in listed] == [made.json()["sandboxID"]]


@pytest.mark.long
def test_the_operator_may_choose_the_key(tmp_path: Path) -> None:
    engine = start_engine(
        tmp_path / "d", "--pool-size", "0", environment={"SBX_API_KEY": "e2b_0123abcd"}
    )
    try:
        headers = {"X-API-Key": "e2b_0123abcd"}
        answer = httpx.get(
            f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
        )
        assert answer.status_code == 200
        assert not (tmp_path / "d" / "api_key").exists()
    finally:
        engine.stop()


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert f"port {port} of 127.0.0.1 is taken" in fail(tmp_path / "d", "--port", str(port))


def test_a_useless_data_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert "data directory" in fail(tmp_path / "file" / "d")
    assert "data directory" in fail(Path("/proc/nothing"))


def test_a_second_engine_is_one_clear_line(tmp_path: Path) -> None:
    engine = start_engine(tmp_path / "d", "--pool-size", "0")
    try:
        assert "another engine" in fail(tmp_path / "d").lower()
    finally:
        assert engine.stop() == 0


@pytest.mark.long
def test_a_newer_store_is_one_clear_line(tmp_path: Path) -> None:
    engine = start_engine(tmp_path / "d", "--pool-size", "0")
    engine.stop()
    with sqlite3.connect(tmp_path / "d" / "engine.db") as store:
        store.execute("PRAGMA user_version = 99999")
    store.close()

    assert "newer" in fail(tmp_path / "d")


@pytest.mark.parametrize(
    "options",
    [("--isolation", "vm"), ("--port", "70000"), ("--SbxEngine.host_ids=0-70000",)],
)
def test_a_wrong_option_is_refused_without_a_traceback(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    process = popen_engine(tmp_path / "d", *options)
    _, errors = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert b"Traceback" not in errors


@pytest.mark.long
def test_a_wrong_key_is_one_clear_line(tmp_path: Path) -> None:
    text = fail(tmp_path / "d", environment={"SBX_API_KEY": "not-a-key"})

    assert "SBX_API_KEY" in text
    assert "not-a-key" not in text


@pytest.mark.long
def test_the_commands_work_on_the_shared_engine(tmp_path: Path) -> None:
    data_dir = tmp_path / "d"
    assert "no engine is running" in command(data_dir, "list").stderr
    racing = [
        subprocess.Popen(
            [sys.executable, "-m", "sbx_jupyter.cli.main", "env"],
            cwd=CHECKOUT,
            env={**os.environ, "SBX_DATA_DIR": str(data_dir), "NO_PROXY": "x.test"},
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    exports = [each.communicate(timeout=60)[0].decode() for each in racing]
    try:
        assert exports[0] == exports[1]
        names = [line.split("=")[0] for line in exports[0].splitlines()]
        for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_API_KEY", "E2B_VOLUME_API_URL"):
            assert f"export {name}" in names
        assert "export NO_PROXY=x.test,127.0.0.1,localhost,.localhost" in exports[0].splitlines()
        made = command(data_dir, "create", "--metadata", "a=b", "--env", "GREETING=hi")
        sandbox_id = made.stdout.strip()
        assert sandbox_id in command(data_dir, "list").stdout
        assert json.loads(command(data_dir, "list", "--json").stdout)[0]["metadata"] == {"a": "b"}
        ran = command(data_dir, "exec", sandbox_id, "--", "bash", "-c", "echo $GREETING; exit 7")
        assert (ran.stdout, ran.returncode) == ("hi\n", 7)
        assert "started" in command(data_dir, "logs", sandbox_id).stdout
        assert json.loads(command(data_dir, "info", "--json").stdout)["sandboxes"] == 1
        unknown = command(data_dir, "kill", "nope")
        assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
        assert command(data_dir, "kill", sandbox_id).returncode == 0
        assert command(data_dir, "create", "no-such-template").returncode == 1
        assert json.loads(command(data_dir, "doctor", "--json").stdout)["ids"] in ("own", "shared")
        assert "\nids:     " in command(data_dir, "doctor").stdout
    finally:
        assert command(data_dir, "stop").returncode == 0
    until(lambda: not (data_dir / "engine.json").exists())


WATCHED_AT_THE_END = """
import asyncio, sys
from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.service.addresses import Listener
from sbx_jupyter.service.app import SbxEngine

listeners, bind, stop = [], Listener.bind, Engine.stop

def bind_and_note(*arguments):
    listener = bind(*arguments)
    listeners.extend(each.fileno() for each in listener.sockets)
    return listener

async def say_and_stop(self, **options):
    print(sorted(set(listeners) & set(asyncio.get_running_loop()._selector.get_map())))
    await stop(self, **options)

Listener.bind, Engine.stop = bind_and_note, say_and_stop
sys.exit(SbxEngine.launch(sys.argv[1:]))
"""


@pytest.mark.long
def test_an_engine_that_fails_after_its_start_watches_no_closed_socket(tmp_path):
    """Else asyncio does not watch the next descriptor of that number: its stop waited for ever."""
    (tmp_path / "engine.json").mkdir()
    options = ["--port", "0", "--data-dir", str(tmp_path)]
    options += ["--connection-file", str(tmp_path / "engine.json")]

    done = subprocess.run(
        [sys.executable, "-c", WATCHED_AT_THE_END, *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "Is a directory" in done.stderr
