"""Header rules, secrets and rules about names, from inside sandboxes to servers with TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine.egress.world import MISSING, World
from tests.engine_process import EngineProcess, engine_process
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

VALUE = "v4lue-0f-the-secret-7731"
PATIENCE = 30.0
SEARCH = """
import os, sys
needle = sys.argv[1][::-1].encode()
found = []
def look(path):
    try:
        with open(path, "rb") as file:
            tail = b""
            while chunk := file.read(1 << 20):
                if needle in tail + chunk:
                    found.append(path)
                    return
                tail = chunk[-len(needle):]
    except OSError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        look(f"/proc/{pid}/{name}")
    if int(pid) == os.getpid():
        continue
    try:
        spans = [line.split()[0] for line in open(f"/proc/{pid}/maps") if " r" in line]
        memory = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError:
        continue
    for span in spans:
        first, last = (int(part, 16) for part in span.split("-"))
        try:
            memory.seek(first)
            if needle in memory.read(min(last - first, 1 << 24)):
                found.append(f"/proc/{pid}/mem")
        except (OSError, OverflowError):
            pass
for top in ("/etc", "/home", "/root", "/run", "/tmp", "/var", "/dev/shm", "/opt", "/srv"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                look(path)
print("found:", found)
"""
URLLIB = (
    "import urllib.request as r; print(r.urlopen('https://api.test:8443/urllib').read().decode())"
)
REQUESTS = "import requests; print(requests.get('https://api.test:8443/requests').text)"


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[EngineProcess]:
    options = (f"--ip={world.engine_ip}", "--pool-size=1")
    environment = {"SSL_CERT_FILE": str(world.authority)}
    with engine_process("tls", *options, environment=environment, prefix=world.enter()) as running:
        call(running, "POST", "/secrets", {"name": "token", "value": VALUE}).raise_for_status()
        yield running


def call(engine: EngineProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    connection = engine.connection
    headers = {"X-API-KEY": connection.api_key}
    url = f"{connection.url}{path}"
    return httpx.request(method, url, json=body, headers=headers, trust_env=False, timeout=60)


def rule(value: str) -> list[dict[str, Any]]:
    return [{"transform": {"headers": {"Authorization": value}}}]


def run(sandbox: Sandbox, command: str) -> str:
    result = sandbox.commands.run(f"{command} 2>&1", timeout=90)
    return f"{result.exit_code} {result.stdout}"


def search(sandbox: Sandbox) -> list[str]:
    """What the script finds as root, who may read every file, and as user, who may the memory."""
    sandbox.files.write("/tmp/search.py", SEARCH)
    command = f"python3 /tmp/search.py '{VALUE[::-1]}'"
    return [
        sandbox.commands.run(command, user=user, timeout=120).stdout for user in ("root", "user")
    ]


def requests_for(world: World, path: str) -> list[str]:
    return [hit for hit in world.hits() if hit.startswith("request") and path in hit]


@pytest.mark.timeout(300)  # a search reads every file in reach, the first time from the disk
def test_a_secret_reaches_the_server_and_never_the_sandbox(
    config: ConnectionConfig, world: World
) -> None:
    network = NetworkConfig(rules={"api.test": rule("Bearer ${e2b.secrets.token}")})
    with Sandbox.create(config=config, timeout=120, network=network) as sandbox:
        given = "-H 'Authorization: mine' -H 'X-Other: kept'"
        said = {
            "/curl": run(sandbox, f"curl -sS --max-time 30 {given} https://api.test:8443/curl"),
            "/urllib": run(sandbox, f'python3 -c "{URLLIB}"'),
        }
        if run(sandbox, "python3 -c 'import requests'").startswith("0"):
            said["/requests"] = run(sandbox, f'python3 -c "{REQUESTS}"')
        for path, output in said.items():
            assert output.startswith(f"0 GET {path} HTTP/1.1"), output
            (seen,) = requests_for(world, path)
            assert f"Authorization: Bearer {VALUE}" in seen
            assert "Authorization: mine" not in seen
        assert "X-Other: kept" in requests_for(world, "/curl")[0]

        # The servers of this world answer with the request, as no real one would.
        assert search(sandbox) == ["found: []\n"] * 2


@pytest.mark.timeout(300)
def test_a_search_would_find_the_secret(config: ConnectionConfig) -> None:
    with Sandbox.create(config=config, timeout=120) as sandbox:
        sandbox.files.write("/home/user/leak", VALUE)
        sandbox.commands.run("exec sleep 60", envs={"LEAK": VALUE}, background=True)

        of_root, of_user = search(sandbox)
        assert "/home/user/leak" in of_root
        assert "/environ" in of_user
        assert "/mem" in of_user


def test_other_names_pass_untouched(config: ConnectionConfig, world: World) -> None:
    network = NetworkConfig(rules={"*.api.test": rule("Bearer ${e2b.secrets.token}")})
    with Sandbox.create(config=config, timeout=120, network=network) as sandbox:
        trust = "--cacert /tmp/world.pem"
        sandbox.files.write("/tmp/world.pem", world.authority.read_text())
        apex = run(sandbox, f"curl -sS {trust} https://api.test:8443/apex")
        below = run(sandbox, "curl -sS https://www.api.test:8443/below")

        assert apex.startswith("0 GET /apex")
        assert below.startswith("0 GET /below")
        assert VALUE not in requests_for(world, "/apex")[0]
        assert VALUE in requests_for(world, "/below")[0]
        # The far server's own certificate is checked outside, ours inside.
        distrust = run(sandbox, "curl -sS --cacert /tmp/world.pem https://www.api.test:8443/no")
        assert distrust.startswith("60")
        assert requests_for(world, "/no") == []


def test_a_secret_that_does_not_exist_lets_no_request_out(
    config: ConnectionConfig, world: World
) -> None:
    network = NetworkConfig(rules={"api.test": rule("${e2b.secrets.nobody}")})
    with Sandbox.create(config=config, timeout=120, network=network) as sandbox:
        assert not run(sandbox, "curl -sS https://api.test:8443/missing").startswith("0")
    assert requests_for(world, "/missing") == []


def test_a_new_value_and_new_rules_apply_to_a_running_sandbox(
    config: ConnectionConfig, world: World, engine: EngineProcess
) -> None:
    call(engine, "POST", "/secrets", {"name": "turn", "value": "first-value"}).raise_for_status()
    rules = {"api.test": rule("${e2b.secrets.turn}")}
    with Sandbox.create(config=config, timeout=120) as sandbox:
        path = f"/sandboxes/{sandbox.sandbox_id}/network"
        assert call(engine, "PUT", path, {"rules": rules}).status_code == 204
        assert run(sandbox, "curl -sS https://api.test:8443/turn").startswith("0")
        call(engine, "POST", "/secrets/turn", {"value": "second-value"}).raise_for_status()
        assert run(sandbox, "curl -sS https://api.test:8443/turn").startswith("0")

        # The server notes a request after it has answered it.
        until(lambda: len(requests_for(world, "/turn")) == 2)
        first, second = requests_for(world, "/turn")
        assert "first-value" in first
        assert "second-value" in second
        shown = call(engine, "GET", f"/sandboxes/{sandbox.sandbox_id}").json()["network"]
        assert "${e2b.secrets.turn}" in json.dumps(shown)
        assert "-value" not in json.dumps(shown)


def test_rules_about_names_let_those_through_and_ask_for_no_others(
    config: ConnectionConfig, world: World
) -> None:
    network = NetworkConfig(allow_out=["server.test", "*.api.test"], deny_out=["0.0.0.0/0"])
    with Sandbox.create(config=config, timeout=120, network=network) as sandbox:
        before = len(world.hits())
        assert run(sandbox, "curl -sS http://server.test:8080/named").startswith("0")
        assert run(sandbox, "curl -sS http://www.api.test:8080/wild").startswith("0")
        for name in ("api.test", "other.test", "secret-data.evil.test", "20.0.0.10", "20.0.0.11"):
            assert "denied by the sandbox's network" in run(sandbox, f"curl -sS http://{name}:8080")
        asked = {hit for hit in world.hits()[before:] if hit.startswith("dns")}
    assert asked == {"dns server.test", "dns www.api.test"}


def test_a_name_that_leads_inside_is_refused_though_a_rule_allows_it(
    config: ConnectionConfig, world: World
) -> None:
    network = NetworkConfig(allow_out=["*.test"], deny_out=["0.0.0.0/0"])
    with Sandbox.create(config=config, timeout=120, network=network) as sandbox:
        before = len(world.hits())
        for name in ("inside.test", "metadata.test"):
            output = run(sandbox, f"curl -sS http://{name}:8080/")
            assert "is not a public address" in output
        for _ in range(4):
            run(sandbox, "curl -sS --max-time 5 http://rebind.test:8080/")
        hits = world.hits()[before:]
    assert not [hit for hit in hits if hit.startswith(("tcp 10.", "tcp 169."))]


def test_a_pause_with_memory_cuts_what_the_proxy_connected(
    config: ConnectionConfig, world: World, engine: EngineProcess
) -> None:
    with Sandbox.create(config=config, timeout=120) as sandbox:
        tunnel = (
            "exec 3<>/dev/tcp/127.0.0.1/49982;"
            " printf 'CONNECT 20.0.0.10:7099 HTTP/1.1\\r\\n\\r\\n' >&3;"
            " cat <&3; echo the end"
        )
        limited = sandbox.commands.run("sleep 20; echo survived", background=True, timeout=60)
        earlier = len(world.hits())
        client = sandbox.commands.run(tunnel, background=True, timeout=0)
        until(lambda: "tcp 20.0.0.10" in world.hits()[earlier:])
        closed = world.hits().count("closed")

        paused = call(engine, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {})
        assert paused.status_code == 204
        until(lambda: world.hits().count("closed") == closed + 1)
        call(engine, "POST", f"/sandboxes/{sandbox.sandbox_id}/connect", {"timeout": 100})

        ended = until(
            lambda: client.pid not in [found.pid for found in sandbox.commands.list()] or None
        )
        assert ended
        assert limited.pid in [found.pid for found in sandbox.commands.list()]
        assert run(sandbox, "curl -sS http://server.test:8080/after").startswith("0")
