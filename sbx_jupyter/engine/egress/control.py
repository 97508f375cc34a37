"""Opens, updates and closes the outbound network of each sandbox: its proxy and full network."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.addresses import own_addresses
from sbx_jupyter.engine.egress.full_network import FullNetworks, NetworkAccess
from sbx_jupyter.engine.egress.policy import EgressPolicy
from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
from sbx_jupyter.engine.egress.proxy.intercept import Interceptor
from sbx_jupyter.engine.egress.proxy.refusal_log import RefusalLog
from sbx_jupyter.engine.egress.proxy.resolver import Resolver
from sbx_jupyter.engine.egress.proxy.server import EgressProxy
from sbx_jupyter.engine.egress.proxy.upstream import UpstreamProxy
from sbx_jupyter.protocol.runtime import PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sbx_jupyter.engine.egress.proxy.refusal_log import Log
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.isolation.privileged.remote_networks import AnyTapConnections

_PROXY_URL: Final = f"http://127.0.0.1:{PROXY_PORT}"
_NO_PROXY: Final = "localhost,127.0.0.1,0.0.0.0,127.0.0.0/8,::1"
_PROXY_ENVS: Final = dict.fromkeys(
    ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY_URL
)

_ADDRESSES_EVERY: Final = 5.0
"""Seconds between two readings of this machine's addresses."""

_BUNDLE: Final = "/run/sbx/ca-certificates.pem"
_TRUST_ENVS: Final = dict.fromkeys(
    ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
     "NODE_EXTRA_CA_CERTS"),
    _BUNDLE,
)  # fmt: skip


def proxy_envs(sandbox_id: str) -> dict[str, str]:
    """The variables that pip, curl, git, npm, apt, requests and httpx read.

    Names and addresses of the sandbox itself are reached directly; its host name is its id. Without
    ``ALL_PROXY``, on which some clients fail for lack of an extra package.
    """
    direct = f"{_NO_PROXY},{sandbox_id}"
    return {**_PROXY_ENVS, "NO_PROXY": direct, "no_proxy": direct}


def _ignore(sandbox_id: str, target: str, refused: str | None) -> None:
    """Take a decision that nobody asked for."""


class EgressControl:
    """The proxies and full networks of all running sandboxes.

    ``exceptions`` are networks that the operator allows although they are not public. ``secret``
    returns a secret's value by its name and owner. ``log(sandbox_id, level, message, fields)``
    writes to the log of a sandbox. With ``full``, sandboxes have a full network beside the proxy,
    by ``connections``.
    ``on_decision(sandbox_id, target, refused)`` is called for each connection that a proxy made,
    or refused for the reason ``refused``.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        exceptions: Sequence[str] = (),
        secret: Callable[[str, str], str | None],
        log: Log,
        connections: AnyTapConnections,
        full: bool = False,
        on_decision: Callable[[str, str, str | None], None] = _ignore,
    ) -> None:
        self._data_dir = data_dir
        self._exceptions = tuple(ipaddress.ip_network(item) for item in exceptions)
        self._secret = secret
        self._on_decision = on_decision
        self._refusals = RefusalLog(log)
        self._networks = FullNetworks(
            connections, lambda sandbox_id, message: log(sandbox_id, "warn", message, {})
        )
        self._is_full = full
        self._resolver = Resolver()
        self._proxies: dict[str, EgressProxy] = {}
        self._rows: dict[str, SandboxRow] = {}
        self._own = own_addresses()
        self._address_watch: asyncio.Task[None] | None = None
        self._authority: CertificateAuthority | None = None

    async def prepare(self, sandbox: Sandbox) -> None:
        """Open the port of the proxy of a sandbox that nobody has yet.

        Nothing is accepted before ``started``, which knows the rules.
        """
        await sandbox.prepare_port(PROXY_PORT)

    async def started(self, row: SandboxRow, sandbox: Sandbox, *, proxy_only: bool = False) -> None:
        """Start the proxy and network of a sandbox that was started, resumed or adopted."""
        await self.stopped(row.sandbox_id)
        if self._address_watch is None:
            self._address_watch = asyncio.create_task(self._watch_addresses(), name="sbx-addresses")
        sandbox_id = row.sandbox_id
        policy = self._policy(row)
        proxy = EgressProxy(
            policy,
            upstream=self._upstream(row),
            interceptor=self._interceptor(row),
            resolver=self._resolver,
            on_refused=lambda target, reason: self._refused(sandbox_id, target, reason),
            on_opened=lambda target: self._on_decision(sandbox_id, target, None),
        )
        await proxy.serve(await sandbox.listen_port(PROXY_PORT))
        self._proxies[sandbox_id] = proxy
        self._rows[sandbox_id] = row
        if self._is_full and not proxy_only:
            await self._networks.started(sandbox, NetworkAccess.of(policy, row.network))
        if proxy.interceptor is not None:
            # The engine has set the variables of the proxy already; these need another call.
            await self._configure(row, sandbox, use_authority=True)

    async def changed(self, row: SandboxRow, sandbox: Sandbox) -> None:
        """Apply the network configuration of a row."""
        proxy = self._proxies.get(row.sandbox_id)
        if proxy is None:
            return
        self._rows[row.sandbox_id] = row
        interceptor = await self._apply(row, proxy)
        await self._configure(row, sandbox, use_authority=interceptor is not None)

    async def paused(self, sandbox_id: str) -> None:
        """Close all connections, as a pause with memory does (interface 9.5)."""
        if (proxy := self._proxies.get(sandbox_id)) is not None:
            await proxy.close_tunnels()
        await self._networks.paused(sandbox_id)

    async def resumed(self, sandbox_id: str) -> None:
        """Let a resumed sandbox connect again."""
        await self._networks.resumed(sandbox_id)

    async def stopped(self, sandbox_id: str) -> None:
        """Stop the proxy and network of a sandbox."""
        self._rows.pop(sandbox_id, None)
        self._refusals.forget(sandbox_id)
        if (proxy := self._proxies.pop(sandbox_id, None)) is not None:
            await proxy.aclose()
        await self._networks.stopped(sandbox_id)

    async def collect(self, known: set[str]) -> None:
        """End networks that an earlier engine left for sandboxes that are not in ``known``."""
        await self._networks.collect(known if self._is_full else set())

    async def aclose(self) -> None:
        """Close all proxies; keep the networks, since their sandboxes may keep running."""
        if self._address_watch is not None:
            self._address_watch.cancel()
            await asyncio.gather(self._address_watch, return_exceptions=True)
        for proxy in self._proxies.values():
            await proxy.aclose()
        self._proxies.clear()
        await self._networks.aclose()
        self._resolver.close()

    async def _apply(self, row: SandboxRow, proxy: EgressProxy) -> Interceptor | None:
        interceptor, policy = self._interceptor(row), self._policy(row)
        proxy.update(policy, upstream=self._upstream(row), interceptor=interceptor)
        await self._networks.changed(row.sandbox_id, NetworkAccess.of(policy, row.network))
        return interceptor

    def _refused(self, sandbox_id: str, target: str, reason: str) -> None:
        self._on_decision(sandbox_id, target, reason)
        self._refusals.note(sandbox_id, target, reason)

    async def _watch_addresses(self) -> None:
        """Update the rules whenever the addresses of this machine change."""
        while True:
            await asyncio.sleep(_ADDRESSES_EVERY)
            now = await asyncio.to_thread(own_addresses)
            if now == self._own:
                continue
            self._own = now
            for sandbox_id in list(self._rows):
                # Read only now: its rules may have changed while those of another were applied.
                row, proxy = self._rows.get(sandbox_id), self._proxies.get(sandbox_id)
                if row is not None and proxy is not None:
                    await self._apply(row, proxy)

    def _policy(self, row: SandboxRow) -> EgressPolicy:
        return EgressPolicy.from_config(
            row.network,
            allow_internet_access=row.allow_internet_access,
            exceptions=self._exceptions,
            own_addresses=self._own,
        )

    @staticmethod
    def _upstream(row: SandboxRow) -> UpstreamProxy | None:
        if row.network is None or row.network.egress_proxy is None:
            return None
        return UpstreamProxy.from_config(row.network.egress_proxy)

    def _interceptor(self, row: SandboxRow) -> Interceptor | None:
        rules = row.network.rules if row.network is not None else None
        headers = {
            domain.lower(): entries[0].get("transform", {}).get("headers", {})
            for domain, entries in (rules or {}).items()
            if entries
        }
        if not any(headers.values()):
            return None
        if self._authority is None:
            self._authority = CertificateAuthority(self._data_dir)
        return Interceptor(self._authority, headers, lambda name: self._secret(name, row.owner))

    async def _configure(self, row: SandboxRow, sandbox: Sandbox, *, use_authority: bool) -> None:
        """Set the proxy and certificates for processes that start from now on."""
        envs = {**proxy_envs(row.sandbox_id), **row.global_envs()}
        if use_authority:
            await self._install_bundle(sandbox)
            envs = {**_TRUST_ENVS, **envs}
        await sandbox.configure(
            envs=envs, default_user=row.default_user, default_cwd=row.default_cwd
        )

    async def _install_bundle(self, sandbox: Sandbox) -> None:
        """Write the system's certificates and the proxy's to a file in the sandbox."""
        assert self._authority is not None
        system = ssl.create_default_context().get_ca_certs(binary_form=True)
        bundle = "".join(
            [*(ssl.DER_cert_to_PEM_cert(item) for item in system), self._authority.certificate_pem]
        )
        file = await sandbox.files.open_write(_BUNDLE, user="root")
        try:
            await file.write(bundle.encode())
        finally:
            await file.close()
