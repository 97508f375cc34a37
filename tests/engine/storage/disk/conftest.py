"""One engine, and ways to ask it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from sbx_jupyter.client import Sandbox
from sbx_jupyter.client.connection.config import ConnectionConfig
from tests.engine_process import EngineProcess, engine_process

PATIENCE = 60.0
FAST_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
"""Tens of thousands of files take a minute on a disk that others use."""


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with engine_process("disk", folder=FAST_DISK) as running:
        yield running


@pytest.fixture
def api(engine: EngineProcess) -> Iterator[httpx.Client]:
    found = engine.connection
    with httpx.Client(
        base_url=found.url, headers={"X-API-Key": found.api_key}, trust_env=False, timeout=PATIENCE
    ) as client:
        yield client


@dataclass
class Sandboxes:
    """Makes sandboxes that are gone after the test."""

    config: ConnectionConfig
    made: list[Sandbox]

    def create(self, template: str = "base", **fields: Any) -> Sandbox:
        sandbox = Sandbox.create(template, timeout=600, config=self.config, **fields)
        self.made.append(sandbox)
        return sandbox

    def connect(self, sandbox_id: str) -> Sandbox:
        sandbox = Sandbox.connect(sandbox_id, config=self.config)
        self.made.append(sandbox)
        return sandbox


@pytest.fixture
def sandboxes(engine: EngineProcess) -> Iterator[Sandboxes]:
    found = Sandboxes(ConnectionConfig.from_connection_file(engine.connection), [])
    yield found
    for sandbox in found.made:
        sandbox.kill()


def run(sandbox: Sandbox, script: str) -> str:
    """What a script prints; it has to succeed."""
    done = sandbox.commands.run(script, timeout=PATIENCE)
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()
