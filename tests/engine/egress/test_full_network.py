"""The whole network of real sandboxes: what it reaches, and what nobody can make it reach."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine.egress.world import (
    MACHINE,
    NO_FULL_NETWORK,
    OTHER,
    PRIVATE,
    PYTHON,
    RESOLVER,
    SERVER,
    UID,
    World,
)
from tests.engine_process import CHECKOUT, EngineProcess, engine_process
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NO_FULL_NETWORK is not None, reason=str(NO_FULL_NETWORK)),
]

INSIDE = Path(__file__).with_name("inside_network.py").read_text()
PATIENCE = 30.0
ECHO = 7007
SILENT = 7099
FETCH = "curl -sS --noproxy '*' --max-time {0} http://{1}/ 2>&1"
SILENT_CLIENT = (
    "exec 3<>/dev/tcp/{0}/7099; read -u 3 line; echo $line; cat <&3 >/dev/null; echo over; sleep 99"
)


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[EngineProcess]:
    options = (f"--ip={world.engine_ip}", "--network=full", "--pool-size=1")
    environment = {"SSL_CERT_FILE": str(world.authority)}
    with engine_process("full", *options, environment=environment, prefix=world.enter()) as running:
        yield running


@pytest.fixture
def sandbox(config: ConnectionConfig) -> Iterator[Sandbox]:
    with Sandbox.create(config=config, timeout=300) as made:
        yield made


def call(engine: EngineProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    connection = engine.connection
    headers = {"X-API-KEY": connection.api_key}
    url = f"{connection.url}{path}"
    return httpx.request(method, url, json=body, headers=headers, trust_env=False, timeout=60)


def set_network(engine: EngineProcess, sandbox: Sandbox, **body: Any) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/network"
    assert call(engine, "PUT", path, body).status_code == 204


def messages(engine: EngineProcess, sandbox: Sandbox) -> list[str]:
    answer = call(engine, "GET", f"/v2/sandboxes/{sandbox.sandbox_id}/logs")
    return [entry["message"] for entry in answer.json()["logs"]]


def inside(sandbox: Sandbox, *arguments: object, user: str = "root") -> dict[str, list[str]]:
    sandbox.files.write("/tmp/inside.py", INSIDE)
    words = " ".join(map(str, arguments))
    result = sandbox.commands.run(f"python3 /tmp/inside.py {words}", user=user, timeout=60)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def reaches(sandbox: Sandbox, address: str) -> bool:
    return sandbox.commands.run(FETCH.format(3, f"{address}:8080")).exit_code == 0


def slirp_of(engine: EngineProcess, sandbox: Sandbox) -> int:
    record = Path(engine.data_dir, "networks", sandbox.sandbox_id)
    return json.loads(record.read_text())["pid"]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_tcp_udp_and_names_work_without_a_proxy(sandbox: Sandbox, world: World) -> None:
    assert reaches(sandbox, SERVER)
    assert reaches(sandbox, "server.test")
    reached = inside(sandbox, "reach", ECHO, SERVER, user="user")["reached"]

    assert {f"tcp plain {SERVER}", f"udp plain {SERVER}"} <= set(reached)
    assert "dns server.test" in world.hits()


def test_the_proxy_is_still_there(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("curl -sS http://server.test:8080/ 2>&1").exit_code == 0


def test_nothing_denied_is_reached_in_any_way_that_sockets_offer(
    sandbox: Sandbox, world: World, engine: EngineProcess
) -> None:
    denied = [*PRIVATE, MACHINE, world.engine_ip, "10.0.2.2", "10.0.2.3", "255.255.255.255"]
    before = len(world.hits())

    control = inside(sandbox, "reach", ECHO, SERVER)["reached"]
    reached = inside(sandbox, "reach", ECHO, *denied)["reached"]
    port = int(engine.connection.url.rpartition(":")[2])
    platform = inside(sandbox, "reach", port, world.engine_ip, MACHINE, "10.0.2.2")["reached"]

    for way in ("plain", "bound", "bound_index", "unicast_interface"):
        assert f"tcp {way} {SERVER}" in control, "the way itself does not work"
    assert reached == platform == []
    assert not [hit for hit in world.hits()[before:] if hit.split()[-1] in PRIVATE]


def test_a_name_cannot_lead_to_what_is_denied(sandbox: Sandbox, world: World) -> None:
    before = len(world.hits())
    for name in ("inside.test", "metadata.test", *["rebind.test"] * 6):
        sandbox.commands.run(FETCH.format(2, f"{name}:8080"))

    hits = world.hits()[before:]
    assert "dns rebind.test" in hits
    assert not [hit for hit in hits if hit.startswith(("tcp 10.", "tcp 169."))]


@pytest.mark.parametrize("user", ["root", "user"])
def test_nobody_inside_can_change_the_network(sandbox: Sandbox, user: str) -> None:
    assert inside(sandbox, "rights", user=user)["done"] == []
    assert reaches(sandbox, SERVER)


def test_the_resolver_answers_questions_and_nothing_else(sandbox: Sandbox) -> None:
    assert inside(sandbox, "reach", 53, "10.0.2.3")["reached"] != []
    assert inside(sandbox, "reach", 80, "10.0.2.3", "10.0.2.2", "10.0.2.4")["reached"] == []


def test_other_sandboxes_are_not_reached(config: ConnectionConfig, sandbox: Sandbox) -> None:
    with Sandbox.create(config=config, timeout=600) as neighbour:
        neighbour.commands.run("python3 -m http.server 8080", background=True)
        until(lambda: neighbour.commands.run("curl -sS localhost:8080 -o /dev/null").exit_code == 0)

        assert inside(sandbox, "reach", 8080, "10.0.2.100", "10.0.2.15")["reached"] == []


def test_addresses_and_networks_of_rules_hold(config: ConnectionConfig, world: World) -> None:
    only = NetworkConfig(allow_out=[OTHER], deny_out=["0.0.0.0/0"])
    without = NetworkConfig(deny_out=["20.0.0.8/31", f"{OTHER}/32"])
    with Sandbox.create(config=config, timeout=600, network=only) as sandbox:
        before = len(world.hits())
        assert reaches(sandbox, OTHER)
        assert inside(sandbox, "reach", ECHO, SERVER, RESOLVER, *PRIVATE)["reached"] == []
        sandbox.commands.run("getent hosts a-secret.server.test")
        assert not [hit for hit in world.hits()[before:] if hit.startswith("dns")]
    with Sandbox.create(config=config, timeout=600, network=without) as sandbox:
        assert reaches(sandbox, SERVER)
        reached = inside(sandbox, "reach", ECHO, OTHER)["reached"]
        assert reached == []


def test_a_sandbox_without_internet_has_no_way_out(
    config: ConnectionConfig, world: World, engine: EngineProcess
) -> None:
    with Sandbox.create(config=config, timeout=600, allow_internet_access=False) as sandbox:
        before = len(world.hits())

        assert inside(sandbox, "reach", ECHO, SERVER, *PRIVATE)["reached"] == []
        proxied = sandbox.commands.run("curl -sS http://a-secret.server.test:8080/").stdout
        assert world.hits()[before:] == []
        assert "denied by the sandbox's network" in proxied
        assert not Path(engine.data_dir, "networks", sandbox.sandbox_id).exists()


def test_rules_change_while_it_runs(sandbox: Sandbox, engine: EngineProcess, world: World) -> None:
    client = sandbox.commands.run(SILENT_CLIENT.format(SERVER), background=True, timeout=0)
    until(lambda: f"tcp {SERVER}" in world.hits()[-3:])
    slirp, closed = slirp_of(engine, sandbox), world.hits().count("closed")

    set_network(engine, sandbox, denyOut=[OTHER])
    assert not reaches(sandbox, OTHER)
    assert reaches(sandbox, SERVER)
    until(lambda: world.hits().count("closed") == closed + 1)

    again = sandbox.commands.run(SILENT_CLIENT.format(SERVER), background=True, timeout=0)
    slirp, closed = slirp_of(engine, sandbox), world.hits().count("closed")
    set_network(engine, sandbox)
    assert reaches(sandbox, OTHER)
    assert slirp_of(engine, sandbox) == slirp
    assert world.hits().count("closed") == closed

    set_network(engine, sandbox, denyOut=["0.0.0.0/0"])
    assert inside(sandbox, "reach", ECHO, SERVER, OTHER)["reached"] == []
    until(lambda: not is_alive(slirp))
    set_network(engine, sandbox)
    assert reaches(sandbox, "server.test")
    client.kill()
    again.kill()


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ({"allowOut": ["server.test"], "denyOut": ["0.0.0.0/0"]}, "name domains"),
        ({"rules": {"api.test": [{"transform": {"headers": {"X-A": "b"}}}]}}, "set headers"),
        ({"egressProxy": {"address": f"{SERVER}:1080"}}, "egress proxy"),
    ],
)
def test_rules_about_names_leave_only_the_proxy_and_the_log_says_so(
    sandbox: Sandbox, engine: EngineProcess, network: dict[str, Any], why: str
) -> None:
    set_network(engine, sandbox, **network)

    assert inside(sandbox, "reach", ECHO, SERVER)["reached"] == []
    until(lambda: any(text.endswith(why) for text in messages(engine, sandbox)))
    proxied = sandbox.commands.run("curl -sS http://server.test:8080/")
    assert (proxied.exit_code == 0 and "Host" in proxied.stdout) is (why != "egress proxy")
    set_network(engine, sandbox)
    assert reaches(sandbox, SERVER)


def test_servers_for_names_are_those_of_the_rules(sandbox: Sandbox, engine: EngineProcess) -> None:
    set_network(engine, sandbox, dnsServers=[RESOLVER])

    assert sandbox.files.read("/etc/resolv.conf") == f"nameserver {RESOLVER}\n"
    assert reaches(sandbox, "other.test")


def test_a_pause_with_memory_drops_connections_and_a_resume_connects_again(
    sandbox: Sandbox, engine: EngineProcess, world: World
) -> None:
    sandbox.commands.run(SILENT_CLIENT.format(SERVER), background=True, timeout=0)
    until(lambda: f"tcp {SERVER}" in world.hits()[-2:])
    closed, slirp = world.hits().count("closed"), slirp_of(engine, sandbox)

    assert call(engine, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {}).status_code == 204
    until(lambda: world.hits().count("closed") == closed + 1)
    assert not is_alive(slirp)
    call(engine, "POST", f"/sandboxes/{sandbox.sandbox_id}/connect", {"timeout": 100})

    assert reaches(sandbox, SERVER)
    assert inside(sandbox, "reach", ECHO, MACHINE, *PRIVATE)["reached"] == []


def test_connections_and_rules_outlive_the_engine(
    sandbox: Sandbox, engine: EngineProcess, world: World
) -> None:
    sandbox.commands.run(SILENT_CLIENT.format(SERVER), background=True, timeout=0)
    until(lambda: f"tcp {SERVER}" in world.hits()[-2:])
    closed, slirp = world.hits().count("closed"), slirp_of(engine, sandbox)

    engine.kill()
    engine.start()
    found = Sandbox.connect(
        sandbox.sandbox_id, config=ConnectionConfig.from_connection_file(engine.connection)
    )

    assert slirp_of(engine, sandbox) == slirp
    assert world.hits().count("closed") == closed
    assert reaches(found, SERVER)
    assert inside(found, "reach", ECHO, MACHINE, *PRIVATE)["reached"] == []
    set_network(engine, found, denyOut=[SERVER])
    assert inside(found, "reach", ECHO, SERVER)["reached"] == []
    found.kill()


def test_a_far_end_that_dies_is_started_again_with_the_same_rules(
    sandbox: Sandbox, engine: EngineProcess
) -> None:
    before = slirp_of(engine, sandbox)
    os.kill(before, signal.SIGKILL)

    record = Path(engine.data_dir, "networks", sandbox.sandbox_id)
    until(lambda: record.exists() and slirp_of(engine, sandbox) != before)
    until(lambda: reaches(sandbox, SERVER))
    assert inside(sandbox, "reach", ECHO, MACHINE, *PRIVATE)["reached"] == []
    assert any("ended unexpectedly" in text for text in messages(engine, sandbox))


def test_nothing_is_left_of_a_sandbox_that_ended(
    config: ConnectionConfig, engine: EngineProcess
) -> None:
    sandbox = Sandbox.create(config=config, timeout=600)
    slirp = slirp_of(engine, sandbox)
    sandbox.kill()

    until(lambda: not is_alive(slirp))
    assert not Path(engine.data_dir, "networks", sandbox.sandbox_id).exists()


def test_what_an_engine_before_left_is_collected(
    config: ConnectionConfig, engine: EngineProcess
) -> None:
    sandbox = Sandbox.create(config=config, timeout=600)
    slirp = slirp_of(engine, sandbox)
    (cage,) = Path(engine.data_dir, "cages").glob(sandbox.sandbox_id)
    pid = json.loads(cage.read_text())["pid"]
    engine.kill()
    os.kill(pid, signal.SIGKILL)
    engine.start()

    until(lambda: not is_alive(slirp))
    assert not Path(engine.data_dir, "networks", sandbox.sandbox_id).exists()


def test_the_engine_says_which_network_sandboxes_have(engine: EngineProcess) -> None:
    info = call(engine, "GET", "/engine/info").json()

    assert info["network"] == "full"
    assert info["isolation"]["full_network"] is True


@pytest.mark.parametrize("user", ["virtual", "subordinate"])
def test_an_engine_of_an_ordinary_user_holds_it_as_well(world: World, user: str) -> None:
    for tool, package in (("setpriv", "util-linux"), ("newuidmap", "uidmap"), (PYTHON, "python3")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing (package {package})")
    environment = {
        "SSL_CERT_FILE": str(world.authority),
        "HOME": "/nonexistent",
        "PYTHONPATH": f"{CHECKOUT}:{sysconfig.get_path('purelib')}",
    }
    options = (f"--ip={world.engine_ip}", "--network=full", "--pool-size=1")
    with engine_process(
        "user", *options, environment=environment, prefix=world.enter(user), python=PYTHON, uid=UID
    ) as engine:
        config = ConnectionConfig.from_connection_file(engine.connection)
        with Sandbox.create(config=config, timeout=120) as sandbox:
            assert reaches(sandbox, "server.test")
            assert inside(sandbox, "rights")["done"] == []
            denied = [*PRIVATE, MACHINE, world.engine_ip, "10.0.2.2"]
            assert f"tcp bound {SERVER}" in inside(sandbox, "reach", ECHO, SERVER)["reached"]
            assert inside(sandbox, "reach", ECHO, *denied)["reached"] == []
            set_network(engine, sandbox, denyOut=[SERVER])
            assert inside(sandbox, "reach", ECHO, SERVER)["reached"] == []
            set_network(engine, sandbox)
            assert reaches(sandbox, SERVER)
            users = call(engine, "GET", "/engine/info").json()["isolation"]["users"]
            assert users == user


def test_an_engine_that_cannot_give_it_says_what_is_missing_and_does_not_start(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "chmod").symlink_to("/bin/chmod")
    command = [sys.executable, "-P", "-m", "sbx_jupyter.cli.main", "engine", "--network=full"]
    command += ["--data-dir", str(tmp_path / "data"), "--port=0"]
    done = subprocess.run(
        [*world.enter(), "/usr/bin/env", f"PATH={tmp_path}", *command],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode != 0
    assert "slirp4netns is not installed: sudo apt-get install slirp4netns" in done.stderr


def test_an_address_that_the_machine_gets_later_is_denied_too(
    sandbox: Sandbox, engine: EngineProcess, world: World
) -> None:
    late = "20.0.0.99"
    enter = ["ip", "netns", "exec", world.machine]
    server = subprocess.Popen(
        [*enter, sys.executable, "-m", "http.server", "8080", "--bind", "0.0.0.0"],
        cwd=world.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    local = [*enter, "curl", "-sS", "--max-time", "2", f"http://{late}:8080/", "-o", "/dev/null"]
    try:
        subprocess.run([*enter, "ip", "addr", "add", f"{late}/32", "dev", "lo"], check=True)
        until(lambda: subprocess.run(local, check=False, capture_output=True).returncode == 0)

        until(lambda: not reaches(sandbox, late))
        refused = sandbox.commands.run(f"curl -sS http://{late}:8080/").stdout
        assert "is not a public address" in refused
        assert reaches(sandbox, SERVER)
    finally:
        server.kill()
        server.wait()
        subprocess.run([*enter, "ip", "addr", "del", f"{late}/32", "dev", "lo"], check=False)
