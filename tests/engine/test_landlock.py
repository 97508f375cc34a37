"""Test ports, the way out, the interpreter and kernels where sandboxes have Landlock alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.client.api.attachments import AttachmentsClient
from sbx_jupyter.client.connection.bundled import find_engine
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.kernel import landlock
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine_process import CHECKOUT
from tests.host_server import host_server
from tests.kernel.test_provisioner import running_kernel
from tests.system_python import PYTHON, VERSION, environment_for_all
from tests.waiting import async_until, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

UID = 1481
CANNOT_CONNECT = 7
"""How curl ends."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.getuid() != 0
        or shutil.which("setpriv") is None
        or Path(PYTHON).resolve().name != VERSION
        or landlock.abi() < landlock.NEEDED_ABI,
        reason="needs root, setpriv, Linux 6.12 and the system's Python for every user",
    ),
    pytest.mark.timeout(120),
]

ECHO = """
import asyncio
async def answer(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 7000)
    async def ask():
        reader, writer = await asyncio.open_connection("localhost", 7000)
        writer.write(b"hello\\n")
        said = await reader.read()
        writer.close()
        return said
    print(set(await asyncio.gather(*(ask() for _ in range(200)))))
asyncio.run(main())
"""
NODE = """
require("http").createServer((_, answer) => answer.end("from node")).listen(7001, () =>
  fetch("http://127.0.0.1:7001").then(answer => answer.text()).then(text => {
    console.log(text); process.exit() }))
"""


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """An environment of every user's Python, with what kernels need."""
    # In memory: removing some thousand files from a busy disk takes a minute.
    with environment_for_all("/dev/shm") as made:
        yield made


@pytest.fixture(scope="module")
def config(python: Path) -> Iterator[ConnectionConfig]:
    """A connection to an engine of an ordinary user."""
    # So long that sockets have no room for their names in folders of a sandbox.
    home = Path(tempfile.mkdtemp(prefix="sbx-landlock-with-a-long-name-", dir="/tmp"))
    try:
        # What the engine needs beside it is for no sandbox to see.
        engine_path = f"{CHECKOUT}:{next(p for p in sys.path if p.endswith('site-packages'))}"
        os.chown(home, UID, UID)
        home.chmod(0o755)
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": engine_path}
        with (home / "engine.log").open("wb") as log:
            engine = subprocess.Popen(
                ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
                 python / "bin" / "python", "-B", "-m", "sbx_jupyter.cli.main", "engine", "--port",
                 "0", "--data-dir", home / "data", "--pool-size=0", "--isolation=landlock",
                 "--SbxEngine.egress_exceptions=127.0.0.0/8"],
                env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

        def running() -> ConnectionConfig | None:
            assert engine.poll() is None, (home / "engine.log").read_text()
            found = find_engine(home / "data")
            return found and ConnectionConfig(api_url=found.url, api_key=found.api_key)

        try:
            found = until(running, timeout=60)
            assert found is not None
            yield found
        finally:
            engine.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.wait(60)
            engine.kill()
            engine.wait()
    finally:
        shutil.rmtree(home)


@pytest.fixture
async def sandbox(config: ConnectionConfig) -> AsyncIterator[AsyncSandbox]:
    async with await AsyncSandbox.create("base", config=config) as made:
        yield made


@pytest.fixture
def host_port() -> Iterator[int]:
    """A server of the machine."""
    with host_server() as port:
        yield port


async def ask(sandbox: AsyncSandbox, port: int) -> httpx.Response:
    url, headers = sandbox.port_address(port)
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.get(url, headers=headers)


async def test_the_gateway_reaches_a_port_and_no_other_sandbox_does(sandbox, config):
    await sandbox.commands.start("cd; echo inside > index.html; exec python3 -m http.server 8000")
    answer = await async_until(lambda: _answered(sandbox))
    assert answer.text == "inside\n"

    assert (await ask(sandbox, 8001)).status_code == 502
    curl = "curl -sS -o /dev/null -w '%{http_code}' http://localhost:8000/"
    assert (await sandbox.commands.run(curl)).stdout == "200"
    async with await AsyncSandbox.create("base", config=config) as other:
        assert (await other.commands.run(curl)).exit_code == CANNOT_CONNECT


async def _answered(sandbox: AsyncSandbox) -> httpx.Response | None:
    answer = await ask(sandbox, 8000)
    return answer if answer.status_code == 200 else None


async def test_the_engine_lists_the_ports_on_which_programs_listen(sandbox, config):
    async with AttachmentsClient(config) as client:
        assert await client.ports(sandbox.sandbox_id) == []
        await sandbox.commands.start("cd; exec python3 -m http.server 8000")
        found = await async_until(lambda: client.ports(sandbox.sandbox_id))
        assert [each.port for each in found] == [8000]


async def test_asyncio_and_node_serve_and_connect(sandbox):
    await sandbox.files.write("echo.py", ECHO)
    assert (await sandbox.commands.run("cd; python3 echo.py")).stdout == "{b'HELLO\\n'}\n"
    if shutil.which("node", path="/usr/bin:/usr/local/bin"):
        await sandbox.files.write("serve.js", NODE)
        assert (await sandbox.commands.run("cd; node serve.js")).stdout == "from node\n"


async def test_the_way_out_is_the_proxy_with_its_rules(sandbox, host_port):
    direct = f"curl -sS --noproxy '*' http://127.0.0.1:{host_port}/"
    assert (await sandbox.commands.run(direct)).exit_code == CANNOT_CONNECT
    through = f"curl -sS --noproxy '' -x $HTTP_PROXY http://127.0.0.1:{host_port}/"
    assert (await sandbox.commands.run(through)).stdout == "host"

    await sandbox.update_network(NetworkConfig(deny_out=["0.0.0.0/0"]))

    assert "denied" in (await sandbox.commands.run(through)).stdout
    await sandbox.update_network(NetworkConfig(deny_out=["0.0.0.0/0"], allow_out=["127.0.0.0/8"]))
    assert (await sandbox.commands.run(through)).stdout == "host"


async def test_code_runs_in_the_interpreter(sandbox):
    await sandbox.run_code("value = 20")
    assert (await sandbox.run_code("value + 1")).text == "21"
    failed = await sandbox.run_code("import urllib.request as r; r.urlopen('http://127.0.0.1:9')")
    assert failed.error is not None
    assert "refused" in failed.error.value


USERS = """
whoami; sudo whoami; su -c whoami; su user -c 'echo $HOME | sed s,.*/upper,,'
sudo useradd -m ann && su - ann -c 'whoami; echo ${HOME##*/}; basename $(command -v python3)'
touch own && chown www-data:www-data own && echo owned
sudo apt-get install -y jq; echo $?
pip install -q --no-index ./tried-1-py3-none-any.whl && python3 -c 'import tried' && echo tried
"""
WHEEL = """
import zipfile
with zipfile.ZipFile("tried-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tried.py", "")
    folder = "tried-1.dist-info"
    wheel.writestr(f"{folder}/METADATA", "Metadata-Version: 2.1\\nName: tried\\nVersion: 1\\n")
    wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
    wheel.writestr(f"{folder}/RECORD", "")
"""


async def test_users_are_names_and_what_cannot_be_is_one_line(sandbox):
    await sandbox.files.write("wheel.py", WHEEL)
    ran = await sandbox.commands.run(f"cd; python3 wheel.py; {USERS}", timeout=60)

    assert ran.stdout.split() == [
        "user", "root", "root", "/home/user", "ann", "ann", "python3", "owned", "100", "tried",
    ]  # fmt: skip
    assert ran.stderr.count("\n") == 1
    assert "cannot be installed" in ran.stderr


GROUPS = """
sudo useradd bob && sudo groupadd crew && sudo addgroup band &&
  sudo usermod -aG crew,band bob && echo made
sudo usermod -a -G crew bob; sudo addgroup bob band; sudo groupadd -f crew
grep -E '^(crew|band):' $SBX_ROOT/etc/group | cut -d: -f1,4 | sort
sudo groupadd crew; echo $?
sudo usermod -aG none bob; echo $?
sudo usermod -aG crew none; echo $?
sudo usermod -u 7 bob; echo $?
"""
PASSWORDS = """
sudo useradd bob
printf bob:p | sudo chpasswd; echo $?
echo none:p | sudo chpasswd; echo $?
sudo passwd -l bob; echo $?
sudo passwd none; echo $?
"""


async def test_users_join_groups_that_are_there(sandbox):
    ran = await sandbox.commands.run(GROUPS)

    assert ran.stdout.split() == ["made", "band:bob", "crew:bob", "9", "6", "6", "2"]
    assert ran.stderr.splitlines() == [
        "groupadd: group 'crew' already exists",
        "usermod: group 'none' does not exist",
        "usermod: user 'none' does not exist",
        "usermod: this sandbox has one id, so that users can only join groups, by -aG",
    ]


async def test_passwords_are_taken_of_users_that_are_there(sandbox):
    ran = await sandbox.commands.run(PASSWORDS)

    assert ran.stdout.split() == ["0", "1", "0", "1"]
    assert ran.stderr.splitlines() == [
        "chpasswd: nothing in this sandbox asks for passwords, so none is kept",
        "chpasswd: user 'none' does not exist",
        "passwd: nothing in this sandbox asks for passwords, so none is kept",
        "passwd: user 'none' does not exist",
    ]


@pytest.mark.parametrize("path", ["/data", "relative"])
async def test_volumes_are_refused_in_words(config, path):
    with pytest.raises(InvalidArgumentError, match="volumes need isolation by namespaces"):
        await AsyncSandbox.create("base", volumes={path: "any"}, config=config)


async def test_a_kernel_runs_in_the_sandbox(config, python, monkeypatch):
    monkeypatch.setenv("E2B_API_URL", config.api_url)
    monkeypatch.setenv("E2B_SANDBOX_URL", config.api_url)
    monkeypatch.setenv("E2B_API_KEY", config.api_key)
    # Jupyter and the engine usually have one Python, whose packages sandboxes see.
    monkeypatch.setattr("sbx_jupyter.kernel.zygote.sys.executable", str(python / "bin" / "python"))

    async with running_kernel() as kernel:
        said = await kernel.text("import os; print(6 * 7, os.environ['SBX_ROOT'])")

    assert said.startswith("42 /")
    assert said.endswith("/upper")
