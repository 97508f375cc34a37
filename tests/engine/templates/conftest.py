"""An engine of their own for builds, with small limits, and clients of its platform API."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.engine_process import engine_process
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine_process import EngineProcess

PATIENCE = 90.0
TIMEOUT = 180


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Builds wait for processors that other tests have."""
    for item in items:
        if item.path.parent == Path(__file__).parent and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with engine_process("templates") as running:
        yield running


@pytest.fixture
def api(engine: EngineProcess) -> Iterator[Api]:
    found = engine.connection
    with httpx.Client(
        base_url=found.url, headers={"X-API-Key": found.api_key}, trust_env=False, timeout=30
    ) as client:
        yield Api(client, engine.process.pid if engine.process is not None else 0)


@pytest.fixture
def e2b_variables(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = engine.connection
    monkeypatch.setenv("E2B_API_URL", found.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", found.url)
    monkeypatch.setenv("E2B_API_KEY", found.api_key)
    yield
    gc.collect()


@dataclass(slots=True)
class Api:
    """The platform API, in the words of a test."""

    client: httpx.Client
    pid: int = 0
    """The process of the engine, where a test looks at that."""

    def used_memory(self) -> int:
        """The bytes that the engine itself has now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    def request(self, name: str, **fields: Any) -> dict[str, Any]:
        answer = self.client.post("/v3/templates", json={"name": name, **fields})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def start(self, asked: dict[str, Any], *steps: dict[str, Any], **fields: Any) -> None:
        body = {"fromTemplate": "base", "steps": list(steps), **fields}
        if "fromImage" in fields:
            del body["fromTemplate"]
        path = f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}"
        answer = self.client.post(path, json=body)
        assert answer.status_code == 202, answer.text
        assert answer.content == b""

    def status(self, asked: dict[str, Any], **query: Any) -> dict[str, Any]:
        path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}/status"
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The status of a build that has ended, with its whole log."""

        def ended() -> dict[str, Any] | None:
            found = self.status(asked)
            return found if found["status"] in ("ready", "error") else None

        found = until(ended, timeout=PATIENCE, message="the build does not end", step=0.05)
        assert found is not None
        while page := self.status(asked, logsOffset=len(found["logEntries"]))["logEntries"]:
            found["logEntries"] += page
        return found

    def build(self, name: str, *steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
        asked = self.request(name)
        self.start(asked, *steps, **fields)
        return self.wait(asked)

    def upload(self, template_id: str, archive: bytes, files_hash: str | None = None) -> str:
        files_hash = files_hash or hashlib.sha256(archive).hexdigest()
        answer = self.client.get(f"/templates/{template_id}/files/{files_hash}")
        assert answer.status_code == 201, answer.text
        sent = httpx.put(answer.json()["url"], content=archive, trust_env=False, timeout=PATIENCE)
        assert sent.status_code == 200, sent.text
        return files_hash


def run(command: str, *user: str) -> dict[str, Any]:
    return {"type": "RUN", "args": [command, *user]}


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    content = fields.pop("content", b"")
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(content), 0o755
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def waits_for_port(engine: EngineProcess, build_id: str, port: int) -> bool:
    """Whether sandboxes of a build are given out when a port is open, by what is stored."""
    path = engine.data_dir / "engine.db"
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        found = connection.execute("SELECT record FROM builds WHERE key = ?", (build_id,))
        return f":{port:04X} " in json.loads(found.fetchone()[0]).get("ready_command", "")


def messages(status: dict[str, Any]) -> str:
    return "\n".join(entry["message"] for entry in status["logEntries"])
