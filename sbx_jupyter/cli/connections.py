"""Finds the connection that a command of ``jupyter sbx`` is to use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.client.config import ConnectionConfig
    from sbx_jupyter.client.named_connections import NamedConnection

_CONFIG_FILES: Final = ("jupyter_config", "jupyter_server_config", "jupyter_sbx_jupyter_config")
"""Where ``c.SbxExtension`` may be set: the files that a Jupyter server reads for the extension."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--connection`` to a command that works with any deployment."""
    parser.add_argument(
        "--connection", metavar="NAME", help="a connection of c.SbxExtension.connections, or local"
    )


def resolve(options: argparse.Namespace, *, start: bool = False) -> ConnectionConfig:
    """Return the connection for a command; ``start`` starts the local engine if none runs.

    It is the one that ``--connection`` names, else the engine of ``--data-dir``, else what the
    environment names (as Jupyter's kernels and terminals have it), else the default of Jupyter's
    configuration, else the local engine. Raises ``NotFoundError`` for an unknown name,
    ``UnavailableError`` when no engine runs.
    """
    from sbx_jupyter.client.config import ConnectionConfig

    if options.connection is None and options.data_dir is None:
        if (named := ConnectionConfig.named_by_environment()) is not None:
            return named
        chosen = configured(None)
    elif options.connection is not None:
        chosen = configured(options.connection)
    else:
        chosen = None
    if chosen is not None and not chosen.is_local:
        return chosen.resolve()
    return ConnectionConfig.from_connection_file(_local_engine(options, start=start))


def configured(name: str | None) -> NamedConnection:
    """Return a connection of Jupyter's configuration, the default for ``None``.

    Raises ``NotFoundError`` for an unknown name.
    """
    from sbx_jupyter.client.named_connections import collect_connections

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


def _local_engine(options: argparse.Namespace, *, start: bool) -> Any:
    from sbx_jupyter.cli.calls import running_engine
    from sbx_jupyter.client.bundled import ensure_engine

    return ensure_engine(options.data_dir) if start else running_engine(options)
