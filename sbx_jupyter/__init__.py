"""Isolated sandboxes inside Jupyter: the public names, and what Jupyter and IPython call.

People import the names below: the modules behind them may move, the names may not. Start at
``client/sandbox.py`` for what these do, at ``server/extension.py`` for JupyterLab, and at
``engine/engine.py`` for how sandboxes run. Each name is imported when it is first used, so that
importing the package stays fast: nothing else may be imported here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbx_jupyter.client import (
        AsyncSandbox,
        CommandHandle,
        CommandResult,
        ConnectionConfig,
        Context,
        Execution,
        Sandbox,
    )
    from sbx_jupyter.errors import SbxError
    from sbx_jupyter.widgets import FileBrowser, MetricsChart, SandboxView, Terminal

_MODULES = {
    "AsyncSandbox": "sbx_jupyter.client",
    "CommandHandle": "sbx_jupyter.client",
    "CommandResult": "sbx_jupyter.client",
    "ConnectionConfig": "sbx_jupyter.client",
    "Context": "sbx_jupyter.client",
    "Execution": "sbx_jupyter.client",
    "FileBrowser": "sbx_jupyter.widgets",
    "MetricsChart": "sbx_jupyter.widgets",
    "Sandbox": "sbx_jupyter.client",
    "SandboxView": "sbx_jupyter.widgets",
    "SbxError": "sbx_jupyter.errors",
    "Terminal": "sbx_jupyter.widgets",
}

__all__ = [
    "AsyncSandbox",
    "CommandHandle",
    "CommandResult",
    "ConnectionConfig",
    "Context",
    "Execution",
    "FileBrowser",
    "MetricsChart",
    "Sandbox",
    "SandboxView",
    "SbxError",
    "Terminal",
]


# Jupyter calls the next two by name.
def _jupyter_server_extension_points() -> list[dict[str, Any]]:  # pyright: ignore[reportUnusedFunction]
    """Tell Jupyter Server where the extension is."""
    home = "sbx_jupyter.server.extension"
    return [{"module": home, "app": import_module(home).SbxExtension}]


# By name too.
def _jupyter_labextension_paths() -> list[dict[str, str]]:  # pyright: ignore[reportUnusedFunction]
    """Tell JupyterLab where the built labextension is."""
    return [{"src": "labextension", "dest": "sbx-jupyter"}]


# IPython calls the next two by name.
def load_ipython_extension(shell: Any) -> None:
    """Add the magics ``%sbx`` and ``%%sbx``: ``%load_ext sbx_jupyter``."""
    import_module("sbx_jupyter.magics.extension").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics off again: ``%unload_ext sbx_jupyter``."""
    import_module("sbx_jupyter.magics.extension").unload(shell)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, "__version__"])


def _version() -> str:
    """Return the version of the installed distribution; ``0+checkout`` where none is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sbx-jupyter")
    except PackageNotFoundError:
        return "0+checkout"
