"""Gives every sandbox its way out: the proxy on its loopback, and what tells tools to use it."""

from __future__ import annotations

import ipaddress
import ssl
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.addresses import own_addresses
from sbx_jupyter.engine.egress.authority import CertificateAuthority
from sbx_jupyter.engine.egress.intercept import Interceptor
from sbx_jupyter.engine.egress.policy import EgressPolicy
from sbx_jupyter.engine.egress.proxy import PROXY_PORT, EgressProxy
from sbx_jupyter.engine.egress.upstream import UpstreamProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sbx_jupyter.engine.records import SandboxRow
    from sbx_jupyter.engine.sandbox import Sandbox

_PROXY_URL: Final = f"http://127.0.0.1:{PROXY_PORT}"
_NO_PROXY: Final = "localhost,127.0.0.1,::1"
PROXY_ENVS: Final = {
    "HTTP_PROXY": _PROXY_URL,
    "HTTPS_PROXY": _PROXY_URL,
    "http_proxy": _PROXY_URL,
    "https_proxy": _PROXY_URL,
    "NO_PROXY": _NO_PROXY,
    "no_proxy": _NO_PROXY,
}
"""Names that pip, curl, git, npm, apt, requests and httpx obey. ``ALL_PROXY`` is left out: some
clients fail on it without an extra package."""

_BUNDLE: Final = "/run/sbx/ca-certificates.pem"
_TRUST_ENVS: Final = dict.fromkeys(
    ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
     "NODE_EXTRA_CA_CERTS"),
    _BUNDLE,
)  # fmt: skip


class EgressControl:
    """The proxies of all running sandboxes.

    ``exceptions`` are networks that the operator opens although they are not public. ``secret``
    gives the value of a secret by name. ``log(sandbox_id, target, reason)`` records a refusal.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        exceptions: Sequence[str] = (),
        secret: Callable[[str], str | None],
        log: Callable[[str, str, str], None],
    ) -> None:
        self._data_dir = data_dir
        self._exceptions = tuple(ipaddress.ip_network(item) for item in exceptions)
        self._secret = secret
        self._log = log
        self._proxies: dict[str, EgressProxy] = {}
        self._authority: CertificateAuthority | None = None

    async def started(self, row: SandboxRow, sandbox: Sandbox) -> None:
        """Open the way out of a sandbox that has new processes or was adopted."""
        await self.stopped(row.sandbox_id)
        sandbox_id = row.sandbox_id
        proxy = EgressProxy(
            self._policy(row),
            upstream=self._upstream(row),
            interceptor=self._interceptor(row),
            on_refused=lambda target, reason: self._log(sandbox_id, target, reason),
        )
        await proxy.serve(await sandbox.listen_port(PROXY_PORT))
        self._proxies[sandbox_id] = proxy
        if proxy.interceptor is not None:
            # The engine set the proxy's variables already; a second round trip only for these.
            await self._configure(row, sandbox, trusts_us=True)

    async def changed(self, row: SandboxRow, sandbox: Sandbox) -> None:
        """Put the network configuration of a row in force at once."""
        proxy = self._proxies.get(row.sandbox_id)
        if proxy is None:
            return
        interceptor = self._interceptor(row)
        proxy.update(self._policy(row), upstream=self._upstream(row), interceptor=interceptor)
        await self._configure(row, sandbox, trusts_us=interceptor is not None)

    async def stopped(self, sandbox_id: str) -> None:
        """Close the way out of a sandbox."""
        if (proxy := self._proxies.pop(sandbox_id, None)) is not None:
            await proxy.aclose()

    async def aclose(self) -> None:
        """Close all."""
        for sandbox_id in list(self._proxies):
            await self.stopped(sandbox_id)

    def _policy(self, row: SandboxRow) -> EgressPolicy:
        return EgressPolicy.from_config(
            row.network,
            allow_internet_access=row.allow_internet_access,
            exceptions=self._exceptions,
            own_addresses=own_addresses(),
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
        return Interceptor(self._authority, headers, self._secret)

    async def _configure(self, row: SandboxRow, sandbox: Sandbox, *, trusts_us: bool) -> None:
        """Tell the processes that start from now on which proxy and certificates to use."""
        envs = {**PROXY_ENVS, **row.global_envs()}
        if trusts_us:
            await self._install_bundle(sandbox)
            envs = {**_TRUST_ENVS, **envs}
        await sandbox.configure(
            envs=envs, default_user=row.default_user, default_cwd=row.default_cwd
        )

    async def _install_bundle(self, sandbox: Sandbox) -> None:
        """The system's certificates and ours, where the sandbox's tools find them."""
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
