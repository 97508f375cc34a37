"""The extension application: its settings and its routes."""

from __future__ import annotations

import asyncio
import atexit
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow
from jupyter_server.extension.application import ExtensionApp
from tornado.routing import HostMatches
from traitlets import Bool, Dict, Float, Integer, Set, TraitError, Unicode, default, validate

from sbx_jupyter.client.connection.bundled import START_TIMEOUT
from sbx_jupyter.client.connection.named_connections import collect_connections, parse_connections
from sbx_jupyter.client.connection.tls import CA_FILE_VARIABLE, check_ca_file
from sbx_jupyter.errors import InvalidArgumentError, SbxError, see
from sbx_jupyter.protocol.locations import DATA_DIR_VARIABLE
from sbx_jupyter.protocol.platform import DEFAULT_TIMEOUT
from sbx_jupyter.server.audit import AuditLog
from sbx_jupyter.server.deployments.connection import SandboxDefaults
from sbx_jupyter.server.deployments.local_engine import EngineSettings, LocalEngine
from sbx_jupyter.server.deployments.opening import Opener
from sbx_jupyter.server.files.listing_snapshots import ListingSnapshots
from sbx_jupyter.server.kernel_environment import KernelEnvironment, public_url_of
from sbx_jupyter.server.ports.access import PortAccess
from sbx_jupyter.server.ports.host_handler import HostHandler
from sbx_jupyter.server.ports.hosts import PortHosts
from sbx_jupyter.server.ports.port_handler import PortHandler
from sbx_jupyter.server.routes import HANDLERS
from sbx_jupyter.server.running_commands import CullingGuard
from sbx_jupyter.server.terminal_names import TerminalNames
from sbx_jupyter.server.terminal_views import TerminalViews
from sbx_jupyter.server.users import (
    OWNER_OF_KERNELS,
    UserConnections,
    has_several_identities,
    owner_of_server,
)

if TYPE_CHECKING:
    from jupyter_server.auth import User

    from sbx_jupyter.server.deployments.connections import Connections


class SbxExtension(ExtensionApp):
    """Gives the signed-in users of this Jupyter server access to sandboxes.

    By default it finds or starts the user's own engine. ``connections`` names other deployments of
    the interface; ``api_url`` (with ``api_key``, or ``E2B_API_KEY`` in the server's environment)
    is the short way to use one.
    """

    name = "sbx_jupyter"
    extension_url = "/lab"
    load_other_extensions = True

    connections = Dict(
        value_trait=Dict(key_trait=Unicode(), value_trait=Unicode()),
        key_trait=Unicode(),
        help="Deployments by name, each with `api_url` or `domain`, and if needed `sandbox_url`,"
        " `ca_file` and a key: `api_key`, `api_key_file` (mode 0600) or `api_key_env` (the name of"
        " an environment variable). The engine of this machine is the connection `local`.",
    ).tag(config=True)

    default_connection = Unicode(
        "",
        help="The connection to use first; default: `remote` if `api_url` is set, else `local`.",
    ).tag(config=True)

    offer_local = Bool(
        True, help="Offer the engine of this machine beside configured deployments."
    ).tag(config=True)

    api_url = Unicode(
        "",
        help="Platform API of a deployment, which is then the connection `remote` and the default.",
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

    kernel_environment = Bool(
        True,
        help="Let programs in kernels and terminals of this server use its default connection, by"
        " `E2B_API_URL`, `E2B_API_KEY` and the other variables that clients read.",
    ).tag(config=True)

    public_url = Unicode(
        "",
        help="Where browsers find this server, with its base URL; default: what JupyterHub or"
        " `c.ServerApp.custom_display_url` say, else the address that it listens on.",
    ).tag(config=True)

    port_hosts = Unicode(
        "",
        help="Host names for ports of sandboxes, as `{port}-{id}.localhost` for browsers on this"
        " machine, or `{port}-{id}.apps.example.net`, whose names must lead to this server and"
        " share no registered domain with it. Pages then have an origin of their own, with cookies"
        " and storage. Default: ports are below `sbx/port/` of this server alone.",
    ).tag(config=True)

    port_hosts_may_share_domain = Bool(
        False,
        help="Use `port_hosts` although their last two parts are those of this server's name. Set"
        " it only if browsers keep cookies of the two apart, as below `co.uk`: else a page of a"
        " sandbox can set cookies for Jupyter.",
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
        START_TIMEOUT, min=0.1, help="Seconds to wait for the bundled engine to be ready."
    ).tag(config=True)

    stop_with_server = Bool(
        False,
        help="Stop the engine of this machine and its sandboxes when this server ends, as a hub"
        " may want it. Otherwise sandboxes go on, and the engine ends by itself once it is idle.",
    ).tag(config=True)

    separate_users = Bool(
        None,
        allow_none=True,
        help="Show each user their own sandboxes only. Default: whether the server knows its users,"
        " as a server below JupyterHub does, or one with an identity provider of its own; those"
        " who sign in with the server's token or password are one user.",
    ).tag(config=True)

    see_all_users = Set(
        trait=Unicode(),
        help="Users who see the sandboxes of all users of this server, and may use its connections"
        " to other deployments. Below JupyterHub, the owner of the server is one of them.",
    ).tag(config=True)

    audit_file = Unicode(
        help="File for who did what to which sandbox, as JSON lines; empty for none. Default:"
        " `sbx-audit.jsonl` in Jupyter's data directory where users are separate, else none.",
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

    deployments: Connections
    """The connections of this server by name; those of its kernels where users are separate."""

    audit: AuditLog | None
    """Who did what, if that is written."""

    users: UserConnections | None
    """The connections of each user, where users are separate."""

    ports: PortAccess
    """Who may use which port of a sandbox by an address alone."""

    listings: ListingSnapshots
    terminals: TerminalViews

    _engine: LocalEngine
    _environment: KernelEnvironment
    _guard: CullingGuard

    @default("api_key")
    def _default_api_key(self) -> str:
        return os.environ.get("E2B_API_KEY", "")

    @default("ca_file")
    def _default_ca_file(self) -> str:
        return os.environ.get(CA_FILE_VARIABLE, "")

    @default("audit_file")
    def _default_audit_file(self) -> str:
        from jupyter_core.paths import jupyter_data_dir

        separate = self._has_separate_users()
        return str(Path(jupyter_data_dir()) / "sbx-audit.jsonl") if separate else ""

    def _open_terminals(self) -> TerminalViews:
        from jupyter_core.paths import jupyter_data_dir

        return TerminalViews(TerminalNames(Path(jupyter_data_dir()) / "sbx-terminals"))

    @validate("ca_file")
    def _check_ca_file(self, proposal: Any) -> str:
        if path := proposal["value"]:
            try:
                check_ca_file(path)
            except SbxError as e:
                raise TraitError(
                    f"c.SbxExtension.ca_file: {e.message}{see('connections')}"
                ) from None
        return proposal["value"]

    @validate("connections")
    def _check_connections(self, proposal: Any) -> dict[str, dict[str, str]]:
        try:
            for each in parse_connections(proposal["value"]).values():
                if each.ca_file:
                    check_ca_file(each.ca_file)
        except SbxError as e:
            raise TraitError(
                f"c.SbxExtension.connections: {e.message}{see('connections')}"
            ) from None
        return proposal["value"]

    @validate("port_hosts")
    def _check_port_hosts(self, proposal: Any) -> str:
        if pattern := proposal["value"].lower():
            try:
                PortHosts(pattern)
            except InvalidArgumentError as e:
                raise TraitError(f"c.SbxExtension.port_hosts: {e.message}{see('ports')}") from None
        return pattern

    @validate("api_url", "sandbox_url")
    def _strip_slash(self, proposal: Any) -> str:
        return proposal["value"].rstrip("/")

    def initialize_settings(self) -> None:
        """Create the connections; sends no request and starts no engine yet."""
        if self.data_dir and not self.api_url:
            os.environ[DATA_DIR_VARIABLE] = self.data_dir
        engine = self._engine = LocalEngine(
            EngineSettings(
                data_dir=self.data_dir, auto_start=self.auto_start, timeout=self.engine_timeout
            ),
            log=self.log,
        )
        if self.stop_with_server:
            # Jupyter ends by SIGINT, which a hub sends first, without stopping its extensions.
            atexit.register(engine.stop)
        self.ports = PortAccess(
            self.port_hosts, may_share_domain=self.port_hosts_may_share_domain, log=self.log
        )
        self.terminals, self.listings = self._open_terminals(), ListingSnapshots()
        self.audit = AuditLog(Path(self.audit_file).expanduser()) if self.audit_file else None
        separate = self._has_separate_users()
        owner = (owner_of_server() or OWNER_OF_KERNELS) if separate else ""
        self._environment = KernelEnvironment(engine, log=self.log, owner=owner)
        opener = self._opener()
        self.users = UserConnections(opener.open_for, self.see_all_users) if separate else None
        try:
            self.deployments = opener.open(
                self._environment.apply if self.kernel_environment else None
            )
        except InvalidArgumentError as e:
            raise TraitError(
                f"c.SbxExtension.default_connection: {e.message}{see('connections')}"
            ) from None

        self._guard = CullingGuard(
            getattr(self.serverapp, "kernel_manager", None),
            self.deployments,
            lambda: self.deployments.default.seen() if self.stop_with_server else (),
            self.log,
        )

    def connections_of(self, user: User | None) -> Connections:
        """The connections that a user may use; raises ``PermissionDeniedError`` for nobody."""
        return self.deployments if self.users is None else self.users.of(user)

    def _has_separate_users(self) -> bool:
        if self.separate_users is not None:
            return self.separate_users
        # A server that is not initialized has none yet; nobody can have signed in there.
        provider = getattr(self.serverapp, "identity_provider", None)
        return provider is not None and has_several_identities(provider)

    def _opener(self) -> Opener:
        """What opens the connections to offer, with the default first unless it is named."""
        legacy = {
            "api_url": self.api_url,
            "sandbox_url": self.sandbox_url,
            "domain": self.domain,
            "api_key": self.api_key,
            "ca_file": self.ca_file,
        }
        named = collect_connections(legacy, self.connections, offer_local=self.offer_local)
        defaults = SandboxDefaults(
            template=self.default_template,
            timeout=self.default_timeout,
            metadata=dict(self.default_metadata),
        )
        return Opener(named, self.default_connection, defaults, self._engine, log=self.log)

    @cached_property
    def description(self) -> dict[str, Any]:
        """The description of the routes by OpenAPI."""
        from sbx_jupyter import __version__
        from sbx_jupyter.server.description.openapi import describe

        return describe(HANDLERS, __version__)

    def initialize_handlers(self) -> None:
        """Add the routes below ``sbx/api`` and ``sbx/port``."""
        self.handlers.extend(HANDLERS)
        self.handlers.append((r"sbx/port/.*", PortHandler))
        if self.ports.hosts is not None and self.serverapp is not None:
            # Before all other rules: nothing of Jupyter is served under these names.
            router = self.serverapp.web_app.default_router
            router.add_rules([(HostMatches(self.ports.hosts.expression), [(r".*", HostHandler)])])
            router.rules.insert(0, router.rules.pop())

    # jupyter_server calls it by this name, with itself, once its own address is known.
    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        if self.kernel_environment:
            self._environment.name_ports(self.public_url or public_url_of(serverapp))
        settings = serverapp.web_app.settings
        self._guard.start(lambda: settings.update(sbx_last_activity=utcnow()))

    async def stop_extension(self) -> None:
        """Close the connections; the engine and its sandboxes go on unless ``stop_with_server``."""
        self._environment.close()
        await self._guard.aclose()
        self.ports.tunnels.close()
        self.listings.close()
        if self.stop_with_server:
            await asyncio.to_thread(self._engine.stop)
            atexit.unregister(self._engine.stop)
        try:
            if self.audit is not None:
                self.audit.close()
            if self.users is not None:
                await self.users.aclose()
            await self.deployments.aclose()
        except SbxError as e:
            self.log.warning("closing the connections to sandboxes: %s", e.message)
