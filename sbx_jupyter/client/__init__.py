"""The client of the interface: asynchronous at the core, with a blocking face."""

from sbx_jupyter.client.commands import CommandHandle
from sbx_jupyter.client.config import ConnectionConfig
from sbx_jupyter.client.output import CommandResult
from sbx_jupyter.client.platform import PlatformClient
from sbx_jupyter.client.pty import PtyHandle, PtyOutput
from sbx_jupyter.client.sandbox import AsyncSandbox
from sbx_jupyter.client.sync_sandbox import Sandbox

__all__ = [
    "AsyncSandbox",
    "CommandHandle",
    "CommandResult",
    "ConnectionConfig",
    "PlatformClient",
    "PtyHandle",
    "PtyOutput",
    "Sandbox",
]
