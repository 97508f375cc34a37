"""Finds the connection that a command of ``jupyter sbx`` is to use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.client.connection.config import ConnectionConfig


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
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.client.connection.configured import configured

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


def _local_engine(options: argparse.Namespace, *, start: bool) -> Any:
    from sbx_jupyter.cli.calls import running_engine
    from sbx_jupyter.client.connection.bundled import ensure_engine

    return ensure_engine(options.data_dir) if start else running_engine(options)
