"""What tools inside a real sandbox can reach, and what new rules change at once."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.checks import check_error
from tests.engine_process import EngineProcess, engine_process
from tests.waiting import PATIENCE


def own_address() -> str:
    """An address of the host that is not loopback, which tools inside take for the sandbox."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


SERVER = own_address()
"""Where the test's servers listen; the operator opened it to sandboxes."""


class ShowRequest(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path}\n{self.headers}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def servers(authority: CertificateAuthority) -> Iterator[dict[str, int]]:
    """Ports of a plain and of a TLS server on the host."""
    plain = http.server.ThreadingHTTPServer((SERVER, 0), ShowRequest)
    secure = http.server.ThreadingHTTPServer((SERVER, 0), ShowRequest)
    context: ssl.SSLContext = authority.context_for("api.test")
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    private = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ShowRequest)
    running = {"plain": plain, "secure": secure, "private": private}
    for server in running.values():
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {name: server.server_port for name, server in running.items()}
    for server in running.values():
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def engine(
    authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineProcess]:
    trusted = tmp_path_factory.mktemp("trust") / "ca.pem"
    trusted.write_text(authority.certificate_pem)
    with engine_process(
        "egress",
        f"--SbxEngine.egress_exceptions={SERVER}/32",
        environment={"SSL_CERT_FILE": str(trusted)},
    ) as running:
        yield running


@pytest.fixture(scope="module")
def config(engine: EngineProcess) -> ConnectionConfig:
    return ConnectionConfig.from_connection_file(engine.connection)


@pytest.fixture
def sandbox(config: ConnectionConfig) -> Iterator[Sandbox]:
    with Sandbox.create(config=config, timeout=600) as made:
        yield made


def fetch(sandbox: Sandbox, url: str, options: str = "") -> tuple[int, str]:
    """Exit code and output of curl inside."""
    result = sandbox.commands.run(f"curl -sS --max-time 30 {options} {url} 2>&1")
    return result.exit_code or 0, result.stdout


def set_network(engine: EngineProcess, sandbox: Sandbox, body: dict) -> httpx.Response:
    connection = engine.connection
    return httpx.put(
        f"{connection.url}/sandboxes/{sandbox.sandbox_id}/network",
        json=body,
        headers={"X-API-KEY": connection.api_key},
        trust_env=False,
        timeout=PATIENCE,
    )


def test_ordinary_tools_go_through_the_proxy(sandbox: Sandbox, servers: dict[str, int]) -> None:
    url = f"http://{SERVER}:{servers['plain']}/x"
    python = (
        "python3 -c 'import urllib.request as r;"
        f' print(r.urlopen("{url}").read().decode().split()[0])\''
    )

    assert fetch(sandbox, url)[1].startswith("/x")
    assert fetch(sandbox, url, "--socks5-hostname 127.0.0.1:49982")[0] == 0
    assert sandbox.commands.run(python).stdout == "/x\n"


def test_without_the_proxy_there_is_no_network(sandbox: Sandbox, servers: dict[str, int]) -> None:
    code, _ = fetch(sandbox, f"http://{SERVER}:{servers['plain']}/", "--noproxy '*'")

    assert code == 7
    interfaces = sandbox.commands.run("ls /sys/class/net 2>/dev/null; cat /proc/net/dev").stdout
    assert "lo:" in interfaces
    assert "eth" not in interfaces


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"]
)
def test_what_is_not_public_is_refused_with_a_sentence(
    sandbox: Sandbox, servers: dict[str, int], host: str
) -> None:
    options = "--noproxy '' --proxy http://127.0.0.1:49982"
    code, output = fetch(sandbox, f"http://{host}:{servers['private']}/", f"{options} -g")

    assert "is not a public address" in output or code != 0
    assert "Host:" not in output


def test_the_engines_own_port_is_refused(sandbox: Sandbox, engine: EngineProcess) -> None:
    options = "--noproxy '' --proxy http://127.0.0.1:49982"

    assert "not a public address" in fetch(sandbox, f"{engine.connection.url}/health", options)[1]


def test_a_sandbox_without_internet_reaches_nothing(
    config: ConnectionConfig, servers: dict[str, int]
) -> None:
    with Sandbox.create(config=config, timeout=600, allow_internet_access=False) as sandbox:
        output = fetch(sandbox, f"http://{SERVER}:{servers['plain']}/")[1]

    assert "denied by the sandbox's network" in output


def test_new_rules_apply_at_once_and_are_logged(
    sandbox: Sandbox, engine: EngineProcess, servers: dict[str, int]
) -> None:
    url = f"http://{SERVER}:{servers['plain']}/"
    assert fetch(sandbox, url)[1].startswith("/")

    denied = set_network(engine, sandbox, {"denyOut": ["0.0.0.0/0"]})
    assert denied.status_code == 204
    assert "denied" in fetch(sandbox, url)[1]

    set_network(engine, sandbox, {"allowOut": [SERVER], "denyOut": ["0.0.0.0/0"]})
    assert fetch(sandbox, url)[1].startswith("/")
    logs = httpx.get(
        f"{engine.connection.url}/v2/sandboxes/{sandbox.sandbox_id}/logs",
        headers={"X-API-KEY": engine.connection.api_key},
        trust_env=False,
        timeout=PATIENCE,
    ).json()["logs"]
    assert any(entry["message"].startswith("Egress refused") for entry in logs)


def test_rules_add_headers_and_secrets_outside_of_the_sandbox(
    config: ConnectionConfig, engine: EngineProcess, servers: dict[str, int]
) -> None:
    connection = engine.connection
    headers = {"X-API-KEY": connection.api_key}
    httpx.post(
        f"{connection.url}/secrets",
        json={"name": "token", "value": "s3cret-value"},
        headers=headers,
        trust_env=False,
        timeout=PATIENCE,
    ).raise_for_status()
    rule = {"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.token}"}}}
    network = NetworkConfig(rules={"*.test": [rule]})

    with Sandbox.create(config=config, timeout=600, network=network) as sandbox:
        sandbox.commands.run(f"echo {SERVER} api.test >> /etc/hosts", user="root")
        # The name is resolved by the proxy, outside, where nobody knows it: this one stays refused.
        unknown = fetch(sandbox, f"https://api.test:{servers['secure']}/")
        env = sandbox.commands.run("env").stdout
        bundle = sandbox.commands.run("grep -c BEGIN $SSL_CERT_FILE").stdout

    assert unknown[0] != 0
    assert "s3cret" not in env + unknown[1]
    assert int(bundle) >= 1


@pytest.mark.parametrize(
    "body",
    [
        {"allowOut": ["example.com"]},
        {"denyOut": ["example.com"]},
        {"denyOut": ["300.1.1.1"]},
        {"rules": {"*": [{}]}},
        {"egressProxy": {"address": "nonsense"}},
        {"dnsServers": ["x"]},
    ],
)
def test_bad_rules_are_refused_and_change_nothing(
    sandbox: Sandbox, engine: EngineProcess, servers: dict[str, int], body: dict
) -> None:
    answer = set_network(engine, sandbox, body)

    check_error(answer, 400)
    assert fetch(sandbox, f"http://{SERVER}:{servers['plain']}/")[0] == 0


def test_every_sandbox_has_its_own_way_out(
    config: ConnectionConfig, engine: EngineProcess, servers: dict[str, int]
) -> None:
    url = f"http://{SERVER}:{servers['plain']}/"
    with (
        Sandbox.create(config=config, timeout=600) as open_one,
        Sandbox.create(config=config, timeout=600) as closed_one,
    ):
        set_network(engine, closed_one, {"denyOut": ["0.0.0.0/0"]})

        assert fetch(open_one, url)[1].startswith("/")
        assert "denied" in fetch(closed_one, url)[1]


def test_the_way_out_comes_back_after_the_engine_was_killed(
    engine: EngineProcess, config: ConnectionConfig, servers: dict[str, int]
) -> None:
    with Sandbox.create(config=config, timeout=600) as sandbox:
        engine.kill()
        engine.start()

        assert fetch(sandbox, f"http://{SERVER}:{servers['plain']}/")[1].startswith("/")


def test_the_authority_is_not_readable_inside(sandbox: Sandbox, engine: EngineProcess) -> None:
    found = sandbox.commands.run(f"cat {Path(engine.data_dir, 'egress-ca.key')} 2>&1", user="root")

    assert "No such file" in found.stdout
