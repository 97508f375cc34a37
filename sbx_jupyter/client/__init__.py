"""The client of the interface: asynchronous classes, and blocking ones that call them.

``sandbox.py`` is the place to start; what it offers is in ``files/``, ``processes/`` and ``code/``.
People import the names below: the modules behind them may move, the names may not. Each is imported
when it is first used, so that looking for the engine loads no HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.client.code.execution import Context, Execution
    from sbx_jupyter.client.connection.config import ConnectionConfig
    from sbx_jupyter.client.processes.commands import CommandHandle
    from sbx_jupyter.client.processes.output import CommandResult
    from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput
    from sbx_jupyter.client.sandbox import AsyncSandbox
    from sbx_jupyter.client.sync_sandbox import Sandbox

_MODULES = {
    "AsyncSandbox": "sandbox",
    "CommandHandle": "processes.commands",
    "CommandResult": "processes.output",
    "ConnectionConfig": "connection.config",
    "Context": "code.execution",
    "Execution": "code.execution",
    "PlatformClient": "api.platform",
    "PtyHandle": "processes.pty",
    "PtyOutput": "processes.pty",
    "Sandbox": "sync_sandbox",
}

__all__ = [
    "AsyncSandbox",
    "CommandHandle",
    "CommandResult",
    "ConnectionConfig",
    "Context",
    "Execution",
    "PlatformClient",
    "PtyHandle",
    "PtyOutput",
    "Sandbox",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
