"""The full network of sandboxes: TCP and UDP to every IPv4 address that their rules allow.

Each sandbox has a tap interface, served by a slirp4netns process outside of the sandbox. A packet
filter on the interface enforces the rules. The routes allow the same addresses, so that programs
fail at once. Only the proxy can enforce rules about names or requests: with such rules, the
interface is down.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.ranges import covers, reachable
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.isolation.full_network.connections import TapRules
from sbx_jupyter.isolation.full_network.link import RESOLVER, has_interface

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.policy import EgressPolicy
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.isolation.full_network.slirp import Slirp
    from sbx_jupyter.isolation.full_network.tap_filter import Range
    from sbx_jupyter.isolation.privileged.remote_networks import AnyTapConnections
    from sbx_jupyter.protocol.platform import NetworkConfig

    Log = Callable[[str, str], None]

_log = logging.getLogger(__name__)

_RESTART_DELAY: Final = 2.0
_DOUBLINGS: Final = 5
"""How often the delay doubles when a start fails again."""
_RESOLV_CONF: Final = "/etc/resolv.conf"
_NO_RESOLVER: Final = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """The addresses that one sandbox may reach through its interface."""

    ranges: tuple[Range, ...] = ()
    resolves: bool = False
    """Whether it may query the machine's resolver: not where all but some addresses are denied,
    since a DNS query can carry data out of the sandbox."""
    servers: tuple[str, ...] = ()
    proxy_only_reason: str | None = None
    """The reason if the interface is down and only the proxy can be used."""

    @classmethod
    def of(cls, policy: EgressPolicy, config: NetworkConfig | None) -> NetworkAccess:
        """The access that a policy and its configuration give."""
        if (reason := _proxy_only_reason(policy, config)) is not None:
            return cls(proxy_only_reason=reason)
        ranges = tuple(reachable(policy))
        servers = tuple((config.dns_servers if config else None) or ())
        return cls(ranges, bool(ranges) and not policy.denies_all, servers)

    @property
    def rules(self) -> TapRules:
        """The rules of the packet filter that gives this access."""
        return TapRules(self.ranges, self.resolves)

    def resolv_conf(self) -> str:
        """The content of ``/etc/resolv.conf`` in the sandbox."""
        if not self.ranges:
            return _NO_RESOLVER
        own = (str(RESOLVER),) if self.resolves else ()
        return "".join(f"nameserver {item}\n" for item in self.servers or own) or _NO_RESOLVER

    def includes(self, other: NetworkAccess) -> bool:
        """Whether this allows everything that ``other`` allows."""
        return covers(self.ranges, other.ranges) and self.resolves >= other.resolves


def _proxy_only_reason(policy: EgressPolicy, config: NetworkConfig | None) -> str | None:
    if policy.allow_domains:
        return "the network rules name domains"
    if config is not None and config.rules:
        return "the network rules set headers"
    if config is not None and config.egress_proxy is not None:
        return "all traffic is to go through an egress proxy"
    return None


@dataclass(slots=True)
class _Network:
    """The network of one sandbox."""

    sandbox: Sandbox
    sock: socket.socket
    access: NetworkAccess = field(default_factory=NetworkAccess)
    slirp: Slirp | None = None
    resolv_conf: str = _NO_RESOLVER
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_paused: bool = False
    failures: int = 0
    """Number of failed starts in a row."""


class FullNetworks:
    """The networks of all running sandboxes; ``log(sandbox_id, message)`` is for their logs."""

    def __init__(self, connections: AnyTapConnections, log: Log) -> None:
        self._connections = connections
        self._log = log
        self._networks: dict[str, _Network] = {}
        self._tasks = BackgroundTasks()

    async def started(self, sandbox: Sandbox, access: NetworkAccess) -> None:
        """Start the network of a sandbox that was started, resumed or adopted."""
        sandbox_id = sandbox.sandbox_id
        try:
            sock = await sandbox.network_socket()
            if not has_interface(sock):
                sock.close()
                self._log(sandbox_id, "The sandbox is older than the full network: proxy only")
                return
        except (SbxError, OSError) as error:
            self._failed(sandbox_id, error)
            return
        network = self._networks[sandbox_id] = _Network(sandbox, sock)
        async with network.lock:
            await self._adopt(sandbox_id, network, access)
            await self._apply(sandbox_id, network, access)

    async def changed(self, sandbox_id: str, access: NetworkAccess) -> None:
        """Apply new rules."""
        if (network := self._networks.get(sandbox_id)) is None:
            return
        async with network.lock:
            await self._apply(sandbox_id, network, access)

    async def paused(self, sandbox_id: str) -> None:
        """Close the connections of a paused sandbox."""
        if (network := self._networks.get(sandbox_id)) is None:
            return
        async with network.lock:
            network.is_paused = True
            await self._stop(sandbox_id, network)

    async def resumed(self, sandbox_id: str) -> None:
        """Restart the network of a resumed sandbox."""
        network = self._networks.get(sandbox_id)
        if network is None or not network.is_paused:
            return
        async with network.lock:
            network.is_paused = False
            await self._apply(sandbox_id, network, network.access)

    async def stopped(self, sandbox_id: str) -> None:
        """Stop the network of a sandbox that ended."""
        if (network := self._networks.pop(sandbox_id, None)) is None:
            return
        async with network.lock:
            await self._stop(sandbox_id, network)
            network.sock.close()

    async def collect(self, known: set[str]) -> None:
        """End the slirp4netns processes of sandboxes that are not in ``known``."""
        await self._connections.collect(known)

    async def aclose(self) -> None:
        """Leave all networks running, for the next engine to adopt."""
        await self._tasks.aclose()
        for network in self._networks.values():
            network.sock.close()
            if network.slirp is not None:
                network.slirp.detach()
        self._networks.clear()

    async def _adopt(self, sandbox_id: str, network: _Network, access: NetworkAccess) -> None:
        """Adopt the slirp4netns of an earlier engine if it has the same rules, else end it."""
        try:
            slirp = await self._connections.adopt(sandbox_id, access.rules)
        except (SbxError, OSError) as error:
            self._failed(sandbox_id, error)
            return
        if slirp is None:
            return
        network.slirp, network.access, network.resolv_conf = slirp, access, access.resolv_conf()
        self._restart_on_exit(sandbox_id, network, slirp)

    async def _apply(self, sandbox_id: str, network: _Network, access: NetworkAccess) -> None:
        before, network.access = network.access, access
        if (
            access.proxy_only_reason is not None
            and access.proxy_only_reason != before.proxy_only_reason
        ):
            self._log(sandbox_id, f"Only the proxy leads out: {access.proxy_only_reason}")
        if network.is_paused:
            return
        try:
            if not access.ranges:
                await self._stop(sandbox_id, network)
            elif network.slirp is None or not access.includes(before):
                await self._start(sandbox_id, network)
            elif access != before:
                await self._widen(sandbox_id, network)
            await _write_resolver(network)
        except (SbxError, OSError) as error:
            await self._stop(sandbox_id, network)
            is_invalid = isinstance(error, InvalidArgumentError)  # only other rules mend that
            if not network.failures or is_invalid:
                self._failed(sandbox_id, error)
            network.failures += 1
            if not is_invalid:
                self._tasks.spawn(self._try_again(sandbox_id, network), "sbx-network")
        else:
            if network.failures and network.slirp is not None:
                self._log(sandbox_id, "There is a full network again")
            network.failures = 0

    async def _try_again(self, sandbox_id: str, network: _Network) -> None:
        """Apply the rules again after a while: what failed may have been killed."""
        failures = network.failures
        await asyncio.sleep(_RESTART_DELAY * 2 ** min(failures - 1, _DOUBLINGS))
        async with network.lock:
            is_current = self._networks.get(sandbox_id) is network
            if is_current and network.failures == failures and not network.sandbox.closed.is_set():
                await self._apply(sandbox_id, network, network.access)

    async def _start(self, sandbox_id: str, network: _Network) -> None:
        await self._stop(sandbox_id, network)
        slirp = network.slirp = await self._connections.connect(
            network.sandbox.cage, network.sock, network.access.rules
        )
        self._restart_on_exit(sandbox_id, network, slirp)

    async def _widen(self, sandbox_id: str, network: _Network) -> None:
        """Allow more addresses, and keep the open connections."""
        rules = network.access.rules
        if not await self._connections.widen(sandbox_id, network.sock, rules):
            await self._start(sandbox_id, network)

    async def _stop(self, sandbox_id: str, network: _Network) -> None:
        slirp, network.slirp = network.slirp, None
        try:
            await self._connections.disconnect(sandbox_id, network.sock)
        except (SbxError, OSError) as error:
            _log.warning("the network of sandbox %s may go on: %s", sandbox_id, error)
        if slirp is not None:
            slirp.detach()

    def _restart_on_exit(self, sandbox_id: str, network: _Network, slirp: Slirp) -> None:
        self._tasks.spawn(self._restart(sandbox_id, network, slirp), "sbx-network")

    async def _restart(self, sandbox_id: str, network: _Network, slirp: Slirp) -> None:
        """Start another slirp4netns when this one ends by itself."""
        await slirp.wait_dead()
        if network.slirp is not slirp or network.sandbox.closed.is_set():
            return
        await asyncio.sleep(_RESTART_DELAY)
        async with network.lock:
            if network.slirp is not slirp or self._networks.get(sandbox_id) is not network:
                return
            if network.sandbox.closed.is_set():
                return
            self._log(sandbox_id, "The full network ended unexpectedly and is started again")
            slirp.detach()
            network.slirp = None
            await self._apply(sandbox_id, network, network.access)

    def _failed(self, sandbox_id: str, error: Exception) -> None:
        _log.warning("sandbox %s has no full network: %s", sandbox_id, error)
        self._log(sandbox_id, f"There is no full network, only the proxy: {error}")


async def _write_resolver(network: _Network) -> None:
    text = network.access.resolv_conf()
    if text == network.resolv_conf:
        return
    file = await network.sandbox.files.open_write(_RESOLV_CONF, user="root")
    try:
        await file.write(text.encode())
    finally:
        await file.close()
    network.resolv_conf = text
