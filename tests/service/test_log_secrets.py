"""Nothing that the engine writes about a session holds a key, a token or a password of it."""

from __future__ import annotations

import base64
import json
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sbx_jupyter.protocol import access
from tests.engine_process import EngineProcess, start_engine

from . import rpc
from .conftest import create_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "pass-word-of-a-registry"
SECRET = "value-of-a-secret"
HEADER = "header-of-a-rule"
ENVIRONMENT = "value-of-an-environment"
INPUT = "typed-into-a-terminal"


@pytest.fixture
def private() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="service-private-") as folder:
        engine = start_engine(Path(folder) / "data", "--pool-size", "1")
        try:
            yield engine
        finally:
            engine.stop()


def live_through(engine: EngineProcess) -> tuple[set[str], list[str]]:
    """Use whatever takes or gives a secret; those secrets, and what can be read of logs by HTTP."""
    secrets = {engine.key, PASSWORD, SECRET, HEADER, ENVIRONMENT, INPUT}
    read: list[str] = []
    with httpx.Client(
        base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=60
    ) as api:
        api.post("/secrets", json={"name": "mine", "value": SECRET}).raise_for_status()
        volume = api.post("/volumes", json={"name": "shared"}).json()
        secrets.add(volume["token"])
        content = {"Authorization": f"Bearer {volume['token']}"}
        route = f"/volumecontent/{volume['volumeID']}/dir"
        api.get(route, params={"path": "/"}, headers=content)
        api.get(route, params={"path": "/"}, headers={"Authorization": "Bearer nonsense-token"})
        rules = {"a.test": [{"transform": {"headers": {"Authorization": HEADER}}}]}
        sandbox = create_sandbox(
            api,
            envVars={"PRIVATE": ENVIRONMENT},
            network={"rules": rules, "allowPublicTraffic": False},
        )
        detail = api.get(f"/sandboxes/{sandbox.id}").json()
        secrets |= {sandbox.token, detail["envdAccessToken"]}
        if traffic := detail.get("trafficAccessToken"):
            secrets.add(traffic)
        secrets |= use_runtime(engine, sandbox.id, sandbox.token)
        with sandbox.client() as runtime:
            rpc.run(runtime, f"echo {INPUT}; bash -c 'exec 3<>/dev/tcp/127.0.0.1/1'; false")
        with sandbox.client(8080) as port:
            port.get("/", headers={"E2B-Traffic-Access-Token": "wrong-traffic-token"})
        template = build(api)
        api.post(f"/sandboxes/{sandbox.id}/pause").raise_for_status()
        api.post(f"/v2/sandboxes/{sandbox.id}/connect", json={"timeout": 60}).raise_for_status()
        api.get("/v2/sandboxes", headers={"X-API-Key": "e2b_0123456789abcdef"})
        read.append(api.get(f"/sandboxes/{sandbox.id}/logs").text)
        read.append(api.get(template + "/status", params={"logsOffset": 0}).text)
        read.append(api.get("/engine/metrics").text)
        read.append(api.get("/engine/info").text)
        api.delete(f"/sandboxes/{sandbox.id}").raise_for_status()
    return secrets, read


def use_runtime(engine: EngineProcess, sandbox_id: str, token: str) -> set[str]:
    """Signed links, right and wrong, in the header and in the query; the signatures."""
    signature = access.sign("/x", "read", "user", token, None)
    routing = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983"}
    wrong = "v1_" + base64.b64encode(b"w" * 32).decode().rstrip("=")
    with httpx.Client(base_url=engine.url, trust_env=False, timeout=60) as client:
        for given in (signature, wrong):
            query = {"path": "/x", "username": "user", "signature": given}
            client.get("/files", params=query)
            client.get("/files", params=query, headers=routing)
        client.get("/files", params={"path": token}, headers={**routing, "X-Access-Token": token})
    return {signature, wrong}


def build(api: httpx.Client) -> str:
    """A build with a registry's password, which fails; the path of its build."""
    ids = api.post("/v3/templates", json={"name": "log-secrets"}).json()
    path = f"/templates/{ids['templateID']}/builds/{ids['buildID']}"
    body = {
        "fromImage": "127.0.0.1:1/none:v1",
        "fromImageRegistry": {"type": "registry", "username": "me", "password": PASSWORD},
        "steps": [],
    }
    api.post(f"/v2{path}", json=body).raise_for_status()
    for _ in range(600):
        if api.get(f"{path}/status").json()["status"] not in ("building", "waiting"):
            break
    api.post(f"/templates/{ids['templateID']}/files/{'0' * 64}")
    return path


def written(engine: EngineProcess) -> dict[str, str]:
    """All that is written for people to read, by where it is."""
    found = {str(path): path.read_text() for path in (engine.data_dir / "log").iterdir()}
    found["standard output"] = engine.log.read_text()
    for path in (engine.data_dir / "builds").rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_text(errors="replace")
    with sqlite3.connect(engine.data_dir / "engine.db") as store:
        rows = store.execute("SELECT record FROM logs").fetchall()
    store.close()
    found["logs of sandboxes"] = "\n".join(
        record if isinstance(record, str) else record.decode() for (record,) in rows
    )
    return found


def test_no_log_of_a_session_holds_a_secret_of_it(private: EngineProcess) -> None:
    secrets, read = live_through(private)
    assert private.stop() == 0

    found = written(private) | {f"answer {index}": text for index, text in enumerate(read)}

    assert len(secrets) >= 10
    assert all(len(secret) > 10 for secret in secrets)
    log = next(text for name, text in found.items() if name.endswith("engine.jsonl"))
    lines = [json.loads(line) for line in log.splitlines()]
    assert len([line for line in lines if line["message"] == "request"]) > 20
    assert "Sandbox started" in found["logs of sandboxes"]
    leaks = [(name, secret) for name, text in found.items() for secret in secrets if secret in text]
    assert not leaks
