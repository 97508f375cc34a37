"""Our own client against a real engine."""

from __future__ import annotations

import pytest
import pytest_asyncio

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, PlatformClient, Sandbox


@pytest.fixture
def config(shared_engine):
    return ConnectionConfig.from_connection_file(shared_engine.connection)


@pytest_asyncio.fixture
async def platform(config):
    async with PlatformClient(config) as client:
        yield client


@pytest_asyncio.fixture
async def sandbox(platform):
    async with await AsyncSandbox.create(platform=platform, timeout=600) as created:
        yield created


@pytest.fixture
def blocking_sandbox(config):
    with Sandbox.create(config=config, timeout=600) as created:
        yield created
