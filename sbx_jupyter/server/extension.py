"""The extension application: its settings and its routes."""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Dict, Float, Integer, TraitError, Unicode, default, validate

from sbx_jupyter.client.tls import CA_FILE_VARIABLE, check_ca_file
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.locations import DATA_DIR_VARIABLE
from sbx_jupyter.protocol.platform import DEFAULT_TIMEOUT
from sbx_jupyter.server.connections import Connections, ConnectionSettings, SandboxDefaults
from sbx_jupyter.server.files import FilesHandler
from sbx_jupyter.server.runtime_proxy import MetricsHandler, RpcHandler
from sbx_jupyter.server.sandboxes import (
    ConnectHandler,
    InfoHandler,
    MetricsHistoryHandler,
    PauseHandler,
    SandboxesHandler,
    SandboxHandler,
    TimeoutHandler,
)
from sbx_jupyter.server.templates_and_forks import (
    ForkHandler,
    OperationHandler,
    OperationsHandler,
    SnapshotHandler,
    TemplateHandler,
    TemplatesHandler,
)
from sbx_jupyter.server.terminals import (
    TerminalHandler,
    TerminalsHandler,
    TerminalSocket,
)
from sbx_jupyter.server.watch import WatchSocket

_API = r"sbx/api"
_SANDBOXES = rf"{_API}/sandboxes"
_SANDBOX = rf"{_SANDBOXES}/(?P<sandbox_id>[^/]+)"

HANDLERS = [
    (rf"{_API}/info", InfoHandler),
    (_SANDBOXES, SandboxesHandler),
    (_SANDBOX, SandboxHandler),
    (rf"{_SANDBOX}/timeout", TimeoutHandler),
    (rf"{_SANDBOX}/pause", PauseHandler),
    (rf"{_SANDBOX}/connect", ConnectHandler),
    (rf"{_SANDBOX}/snapshots", SnapshotHandler),
    (rf"{_SANDBOX}/fork", ForkHandler),
    (rf"{_SANDBOX}/operations", OperationsHandler),
    (rf"{_SANDBOX}/operations/(?P<operation_id>[A-Za-z0-9_-]{{1,64}})", OperationHandler),
    (rf"{_API}/templates", TemplatesHandler),
    (rf"{_API}/templates/(?P<template_id>[^/]+)", TemplateHandler),
    (rf"{_SANDBOX}/metrics", MetricsHandler),
    (rf"{_SANDBOX}/metrics/history", MetricsHistoryHandler),
    (rf"{_SANDBOX}/rpc/(?P<service>[A-Za-z.]+)/(?P<method>[A-Za-z]+)", RpcHandler),
    (rf"{_SANDBOX}/files", FilesHandler),
    (rf"{_SANDBOX}/watch", WatchSocket),
    (rf"{_SANDBOX}/terminals", TerminalsHandler),
    (rf"{_SANDBOX}/terminals/(?P<pid>[0-9]{{1,10}})", TerminalHandler),
    (rf"{_SANDBOX}/terminal", TerminalSocket),
]


class SbxExtension(ExtensionApp):
    """Gives the signed-in users of this Jupyter server access to sandboxes.

    By default it finds or starts the user's own engine. Set ``api_url`` (and ``api_key``,
    or ``E2B_API_KEY`` in the server's environment) to use another deployment of the interface.
    """

    name = "sbx_jupyter"
    extension_url = "/lab"
    load_other_extensions = True

    api_url = Unicode(
        "",
        help="Platform API of a deployment to use; empty: the engine bundled with this package.",
    ).tag(config=True)

    sandbox_url = Unicode(
        "",
        help="One URL for calls to all sandboxes of that deployment; empty: hosts of `domain`.",
    ).tag(config=True)

    domain = Unicode("", help="Domain of that deployment's sandbox host names.").tag(config=True)

    api_key = Unicode(
        help="API key of that deployment; default: `E2B_API_KEY` of the server's environment.",
    ).tag(config=True)

    ca_file = Unicode(
        help="PEM file of the certificate authorities to trust for that deployment, instead of the"
        " usual ones; default: `SBX_CA_FILE` of the server's environment.",
    ).tag(config=True)

    data_dir = Unicode(
        "",
        help="Data directory of the bundled engine; empty: that of the user's shared engine."
        " Kernels of this server use the same one.",
    ).tag(config=True)

    auto_start = Bool(
        True,
        help="Start the bundled engine at the first call to a sandbox when none runs.",
    ).tag(config=True)

    engine_timeout = Float(
        30.0, min=0.1, help="Seconds to wait for the bundled engine to be ready."
    ).tag(config=True)

    default_template = Unicode(
        "base", help="Template of a sandbox that is created without one."
    ).tag(config=True)

    default_timeout = Integer(
        DEFAULT_TIMEOUT,
        min=1,
        help="Seconds that a sandbox lives when it is created without a timeout.",
    ).tag(config=True)

    default_metadata = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="Metadata of every sandbox that is created here, such as an owner's name.",
    ).tag(config=True)

    connections: Connections

    @default("api_key")
    def _default_api_key(self) -> str:
        return os.environ.get("E2B_API_KEY", "")

    @default("ca_file")
    def _default_ca_file(self) -> str:
        return os.environ.get(CA_FILE_VARIABLE, "")

    @validate("ca_file")
    def _check_ca_file(self, proposal: Any) -> str:
        if path := proposal["value"]:
            try:
                check_ca_file(path)
            except SbxError as e:
                raise TraitError(f"c.SbxExtension.ca_file: {e.message}") from None
        return proposal["value"]

    @validate("api_url", "sandbox_url")
    def _strip_slash(self, proposal: Any) -> str:
        return proposal["value"].rstrip("/")

    def initialize_settings(self) -> None:
        """Create the connections; sends no request and starts no engine yet."""
        if self.data_dir and not self.api_url:
            os.environ[DATA_DIR_VARIABLE] = self.data_dir
        self.connections = Connections(
            ConnectionSettings(
                api_url=self.api_url,
                sandbox_url=self.sandbox_url,
                domain=self.domain,
                api_key=self.api_key,
                ca_file=self.ca_file,
                data_dir=self.data_dir,
                auto_start=self.auto_start,
                engine_timeout=self.engine_timeout,
            ),
            SandboxDefaults(
                template=self.default_template,
                timeout=self.default_timeout,
                metadata=dict(self.default_metadata),
            ),
            log=self.log,
        )

    def initialize_handlers(self) -> None:
        """Add the routes below ``sbx/api``."""
        self.handlers.extend(HANDLERS)

    async def stop_extension(self) -> None:
        """Close the connections; the engine and its sandboxes keep running."""
        try:
            await self.connections.aclose()
        except SbxError as e:
            self.log.warning("closing the connections to sandboxes: %s", e.message)
