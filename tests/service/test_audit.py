"""The audit log says who did what to which sandbox, and nothing of what was read or written."""

from __future__ import annotations

import json
from typing import Any

import httpx

from sbx_jupyter.service.audit import Audit
from tests.engine_process import EngineProcess
from tests.waiting import PATIENCE, until

from .conftest import SandboxAccess, create_sandbox
from .rpc import STREAM, envelope


def entries(engine: EngineProcess, sandbox_id: str = "") -> list[dict[str, Any]]:
    lines = (engine.data_dir / "log" / "audit.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if sandbox_id in json.dumps(entry)]


def entry_for(engine: EngineProcess, sandbox_id: str, action: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        found = entries(engine, sandbox_id)
        return next((entry for entry in found if entry["action"] == action), None)

    return until(find, message=f"no entry for {action}")


def test_create_exec_terminal_writes_and_end_are_noted(
    engine: EngineProcess, api: httpx.Client
) -> None:
    made = api.post("/engine/keys", json={"owner": "alice"}).json()
    hers = httpx.Client(
        base_url=engine.url, headers={"X-API-Key": made["key"]}, trust_env=False, timeout=PATIENCE
    )
    sandbox = create_sandbox(hers, envs={"TOKEN": "topsecret"})
    start = {"process": {"cmd": "/bin/echo", "args": ["topsecret"]}}
    with sandbox.client() as runtime:
        for request in (start, {**start, "pty": {"size": {"cols": 80, "rows": 24}}}):
            runtime.post(
                "/process.Process/Start",
                content=envelope(json.dumps(request).encode()),
                headers={"Content-Type": STREAM},
            ).raise_for_status()
        content = {"file": ("x", b"topsecret")}
        runtime.post("/files", params={"path": "/tmp/x"}, files=content).raise_for_status()
        body = {"path": "/tmp/x"}
        runtime.post("/filesystem.Filesystem/Remove", json=body).raise_for_status()
    hers.delete(f"/sandboxes/{sandbox.id}")
    hers.close()

    created = entry_for(engine, sandbox.id, "sandbox.create")
    assert created["owner"] == "alice"
    assert created["made"] == [sandbox.id]
    assert created["status"] == 201
    assert created["from"] == "127.0.0.1"
    assert entry_for(engine, sandbox.id, "exec")["what"] == "/bin/echo"
    assert entry_for(engine, sandbox.id, "terminal")["owner"] == "alice"
    assert entry_for(engine, sandbox.id, "files.write")["what"] == "/tmp/x"
    assert entry_for(engine, sandbox.id, "files.remove")["what"] == "/tmp/x"
    ended = entry_for(engine, sandbox.id, "sandbox.end")
    assert (ended["sandbox"], ended["status"]) == (sandbox.id, 204)
    written = (engine.data_dir / "log" / "audit.jsonl").read_text()
    for secret in ("topsecret", made["key"], engine.key, sandbox.token):
        assert secret not in written


def test_a_refused_call_is_noted_and_reading_is_not(
    engine: EngineProcess, api: httpx.Client, shared: SandboxAccess
) -> None:
    api.get(f"/sandboxes/{shared.id}").raise_for_status()
    wrong = httpx.delete(
        f"{engine.url}/sandboxes/{shared.id}",
        headers={"X-API-Key": "e2b_00", "X-Forwarded-For": "192.0.2.7"},
        trust_env=False,
        timeout=PATIENCE,
    )

    found = entry_for(engine, shared.id, "sandbox.end")

    assert wrong.status_code == found["status"] == 401
    assert "owner" not in found
    assert found["forwarded_for"] == "192.0.2.7"
    assert not any(
        entry.get("path") == f"/sandboxes/{shared.id}" and "end" not in entry["action"]
        for entry in entries(engine, shared.id)
    )


def test_a_flood_of_connections_is_bounded_and_counted(tmp_path) -> None:
    audit = Audit(tmp_path)
    for number in range(500):
        audit.egress("i1", f"host{number}", "not allowed")
    audit.egress("i2", "pypi.org", None)
    audit.close()

    found = [json.loads(line) for line in (tmp_path / "egress.jsonl").read_text().splitlines()]

    of_first = [entry for entry in found if entry["sandbox"] == "i1"]
    assert 100 <= len(of_first) < 400
    assert of_first[0]["action"] == "egress.refuse"
    assert of_first[0]["refused"] == "not allowed"
    assert found[-1]["action"] == "egress.open"
    assert found[-1]["target"] == "pypi.org"
    assert (tmp_path / "egress.jsonl").stat().st_mode & 0o777 == 0o600
