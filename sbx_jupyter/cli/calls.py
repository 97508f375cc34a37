"""Calls the shared engine for a command; each call opens and closes a client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from sbx_jupyter.errors import UnavailableError, see

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.client.templates.templates import TemplateClient
    from sbx_jupyter.protocol.locations import ConnectionFile

T = TypeVar("T")


def running_engine(options: argparse.Namespace) -> ConnectionFile:
    """Find the shared engine; raises ``UnavailableError`` when none runs."""
    from sbx_jupyter.client.connection.bundled import find_engine

    found = find_engine(options.data_dir)
    if found is None:
        raise UnavailableError(
            "no engine is running; `jupyter sbx env --connection local` starts it"
            f"{see('use-it-from')}"
        )
    return found


def call_platform(engine: ConnectionFile, work: Callable[[PlatformClient], Awaitable[T]]) -> T:
    """Run ``work`` with a client of the engine and return its result."""
    from sbx_jupyter.client.connection.config import ConnectionConfig

    return call_deployment(ConnectionConfig.from_connection_file(engine), work)


def call_deployment(config: ConnectionConfig, work: Callable[[PlatformClient], Awaitable[T]]) -> T:
    """Run ``work`` with a client of a deployment and return its result."""
    from sbx_jupyter.client.api.platform import PlatformClient

    async def run() -> T:
        async with PlatformClient(config) as platform:
            return await work(platform)

    return asyncio.run(run())


def call_templates(
    options: argparse.Namespace, work: Callable[[TemplateClient], Awaitable[T]]
) -> T:
    """Run ``work`` with a template client of the running engine and return its result.

    Raises ``UnavailableError`` when none runs.
    """
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.client.templates.templates import TemplateClient

    engine = running_engine(options)

    async def run() -> T:
        async with TemplateClient(ConnectionConfig.from_connection_file(engine)) as client:
            return await work(client)

    return asyncio.run(run())
