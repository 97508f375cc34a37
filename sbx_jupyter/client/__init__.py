"""The client of the interface: asynchronous classes, and blocking ones that call them.

Each name is imported when it is first used, so that looking for the engine loads no HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbx_jupyter.client.code.execution import Context, Execution
    from sbx_jupyter.client.commands import CommandHandle
    from sbx_jupyter.client.config import ConnectionConfig
    from sbx_jupyter.client.output import CommandResult
    from sbx_jupyter.client.platform import PlatformClient
    from sbx_jupyter.client.pty import PtyHandle, PtyOutput
    from sbx_jupyter.client.sandbox import AsyncSandbox
    from sbx_jupyter.client.sync_sandbox import Sandbox

_MODULES = {
    "AsyncSandbox": "sandbox",
    "CommandHandle": "commands",
    "CommandResult": "output",
    "ConnectionConfig": "config",
    "Context": "code.execution",
    "Execution": "code.execution",
    "PlatformClient": "platform",
    "PtyHandle": "pty",
    "PtyOutput": "pty",
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
