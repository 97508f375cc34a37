"""Finds connections by name in the configuration files of Jupyter, for programs beside a server."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final, cast

from sbx_jupyter.client.connection import bundled
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.client.connection.named_connections import NamedConnection, collect_connections
from sbx_jupyter.errors import NotFoundError

_CONFIG_FILES: Final = ("jupyter_config", "jupyter_server_config", "jupyter_sbx_jupyter_config")
"""Files that may set ``c.SbxExtension``: those that a Jupyter server reads for the extension."""


async def named_config(name: str) -> ConnectionConfig:
    """Return the addresses and the key of a connection; starts the engine for ``local``.

    Raises ``NotFoundError`` for an unknown name, and what ``NamedConnection.resolve`` raises.
    """
    connection = await asyncio.to_thread(configured, name)
    if connection.is_local:
        running = await asyncio.to_thread(bundled.ensure_engine)
        return ConnectionConfig.from_connection_file(running)
    return connection.resolve()


def configured(name: str | None) -> NamedConnection:
    """Return a connection of Jupyter's configuration, the default for ``None``.

    Raises ``NotFoundError`` for an unknown name.
    """
    settings = _read_settings()
    legacy = {
        key: str(settings.get(key, "")).rstrip("/" if key.endswith("url") else "")
        for key in ("api_url", "sandbox_url", "domain", "api_key", "ca_file")
    }
    legacy["api_key"] = legacy["api_key"] or os.environ.get("E2B_API_KEY", "")
    connections = cast("dict[str, dict[str, str]]", settings.get("connections", {}))
    known = collect_connections(legacy, connections, offer_local=True)
    wanted = name or str(settings.get("default_connection", "")) or next(iter(known))
    if wanted not in known:
        raise NotFoundError(f"there is no connection '{wanted}'; there are: {', '.join(known)}")
    return known[wanted]


def _read_settings() -> dict[str, Any]:
    from jupyter_core.paths import jupyter_config_path
    from traitlets.config import Application

    class Settings(Application):
        """Reads configuration files, and does nothing else."""

    reader = Settings()
    for name in _CONFIG_FILES:
        reader.load_config_file(name, path=jupyter_config_path())
    return dict(reader.config.SbxExtension)
