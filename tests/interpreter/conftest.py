"""The interpreter's own HTTP interface, reached through the engine's gateway."""

from __future__ import annotations

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from tests.waiting import PATIENCE


@pytest.fixture
def sandbox(shared_engine):
    config = ConnectionConfig.from_connection_file(shared_engine.connection)
    with Sandbox.create(config=config, timeout=600) as created:
        yield created


def client_of(engine, sandbox):
    """An HTTP client whose every request goes to the interpreter of a sandbox, with its token."""
    url = engine.connection.url
    key = {access.API_KEY_HEADER: engine.connection.api_key}
    detail = httpx.get(
        f"{url}/sandboxes/{sandbox.sandbox_id}", headers=key, trust_env=False, timeout=PATIENCE
    ).json()
    headers = {
        access.SANDBOX_ID_HEADER: sandbox.sandbox_id,
        access.SANDBOX_PORT_HEADER: str(INTERPRETER_PORT),
        access.ACCESS_TOKEN_HEADER: detail["envdAccessToken"],
    }
    return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)


@pytest.fixture
def http(shared_engine, sandbox):
    with client_of(shared_engine, sandbox) as client:
        yield client
