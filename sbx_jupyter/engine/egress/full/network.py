"""The whole network for sandboxes: TCP and UDP to every IPv4 address that their rules allow.

Each sandbox has an interface whose far end is a process outside. What it may reach is held by a
packet filter on the interface; its routes say the same, so that programs fail at once. Rules that
need to know names or to look into requests are the proxy's: then the interface is shut.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.full import slirp as far_end
from sbx_jupyter.engine.egress.full import tap_filter
from sbx_jupyter.engine.egress.full.link import RESOLVER, Link, has_interface
from sbx_jupyter.engine.egress.full.ranges import Range, covers, reachable
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.engine.egress.full.slirp import Slirp
    from sbx_jupyter.engine.egress.policy import EgressPolicy
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.protocol.platform import NetworkConfig

    Log = Callable[[str, str], None]

_log = logging.getLogger(__name__)

_RESTART_DELAY: Final = 2.0
_UNFINISHED: Final = "unfinished"
_RESOLV_CONF: Final = "/etc/resolv.conf"
_NO_RESOLVER: Final = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"


@dataclass(frozen=True, slots=True)
class Wish:
    """What one sandbox may reach through its interface."""

    ranges: tuple[Range, ...] = ()
    resolves: bool = False
    """Whether it may ask the machine's resolver: not where all but some addresses is denied,
    since a question can carry data away."""
    servers: tuple[str, ...] = ()
    obstacle: str | None = None
    """Why only the proxy leads out."""

    @classmethod
    def of(cls, policy: EgressPolicy, config: NetworkConfig | None) -> Wish:
        """What a policy and the configuration that it was made of come to."""
        if (obstacle := _obstacle(policy, config)) is not None:
            return cls(obstacle=obstacle)
        ranges = tuple(reachable(policy))
        servers = tuple((config.dns_servers if config else None) or ())
        return cls(ranges, bool(ranges) and not policy.denies_all, servers)

    def program(self) -> bytes:
        """The packet filter; raises ``InvalidArgumentError`` when there are too many ranges."""
        return tap_filter.build(self.ranges, int(RESOLVER) if self.resolves else None)

    def resolv_conf(self) -> str:
        """What programs are to ask for names."""
        if not self.ranges:
            return _NO_RESOLVER
        own = (str(RESOLVER),) if self.resolves else ()
        return "".join(f"nameserver {item}\n" for item in self.servers or own) or _NO_RESOLVER

    def grants(self, other: Wish) -> bool:
        """Whether all that the other allows is allowed here too."""
        return covers(self.ranges, other.ranges) and self.resolves >= other.resolves


def _obstacle(policy: EgressPolicy, config: NetworkConfig | None) -> str | None:
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
    link: Link
    wish: Wish = field(default_factory=Wish)
    slirp: Slirp | None = None
    written: str = _NO_RESOLVER
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_paused: bool = False


class FullNetworks:
    """The networks of all running sandboxes; ``log(sandbox_id, message)`` is for their logs."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._records = far_end.SlirpRecords(folder)
        self._log = log
        self._networks: dict[str, _Network] = {}
        self._guards = BackgroundTasks()

    async def started(self, sandbox: Sandbox, wish: Wish) -> None:
        """Give a network to a sandbox that has new processes or was adopted."""
        sandbox_id = sandbox.sandbox_id
        try:
            sock = await sandbox.network_socket()
            if not has_interface(sock):
                sock.close()
                self._log(sandbox_id, "The sandbox is older than the full network: proxy only")
                return
            network = _Network(sandbox, Link(sock))
        except (SbxError, OSError) as error:
            self._failed(sandbox_id, error)
            return
        self._networks[sandbox_id] = network
        async with network.lock:
            await self._take_over(sandbox_id, network, wish)
            await self._apply(sandbox_id, network, wish)

    async def changed(self, sandbox_id: str, wish: Wish) -> None:
        """Put new rules in force at once."""
        if (network := self._networks.get(sandbox_id)) is None:
            return
        async with network.lock:
            await self._apply(sandbox_id, network, wish)

    async def paused(self, sandbox_id: str) -> None:
        """Drop the connections of a sandbox that stands still."""
        if (network := self._networks.get(sandbox_id)) is None:
            return
        async with network.lock:
            network.is_paused = True
            await self._stop(sandbox_id, network)

    async def resumed(self, sandbox_id: str) -> None:
        """Connect a sandbox that goes on."""
        network = self._networks.get(sandbox_id)
        if network is None or not network.is_paused:
            return
        async with network.lock:
            network.is_paused = False
            await self._apply(sandbox_id, network, network.wish)

    async def stopped(self, sandbox_id: str) -> None:
        """Take the network of a sandbox that ended."""
        if (network := self._networks.pop(sandbox_id, None)) is None:
            return
        async with network.lock:
            await self._stop(sandbox_id, network)
            network.link.close()

    async def collect(self, known: set[str]) -> None:
        """End the far ends of sandboxes that are not in ``known``."""
        for sandbox_id in self._records.names():
            if sandbox_id in known:
                continue
            if (found := self._records.adopt(sandbox_id)) is not None:
                await found[0].stop()
            self._records.remove(sandbox_id)

    async def aclose(self) -> None:
        """Let go of all and leave them running, for the engine after this one."""
        await self._guards.aclose()
        for network in self._networks.values():
            network.link.close()
            if network.slirp is not None:
                network.slirp.leave()
        self._networks.clear()

    async def _take_over(self, sandbox_id: str, network: _Network, wish: Wish) -> None:
        """Go on with the far end of an engine before, if its rules are still right."""
        if (found := self._records.adopt(sandbox_id)) is None:
            return
        slirp, rules = found
        if rules != _digest(wish):
            await slirp.stop()
            return
        network.slirp, network.wish, network.written = slirp, wish, wish.resolv_conf()
        self._guard(sandbox_id, network, slirp)

    async def _apply(self, sandbox_id: str, network: _Network, wish: Wish) -> None:
        before, network.wish = network.wish, wish
        if wish.obstacle is not None and wish.obstacle != before.obstacle:
            self._log(sandbox_id, f"Only the proxy leads out: {wish.obstacle}")
        if network.is_paused:
            return
        try:
            if not wish.ranges:
                await self._stop(sandbox_id, network)
            elif network.slirp is None or not wish.grants(before):
                await self._start(sandbox_id, network)
            elif wish != before:
                await self._widen(sandbox_id, network)
            await _write_resolver(network)
        except (SbxError, OSError) as error:
            await self._stop(sandbox_id, network)
            self._failed(sandbox_id, error)

    async def _start(self, sandbox_id: str, network: _Network) -> None:
        program = network.wish.program()
        await self._stop(sandbox_id, network)
        slirp = await far_end.start(network.link, network.sandbox.cage.pidfd)
        network.slirp = slirp
        self._records.write(sandbox_id, slirp, _UNFINISHED)
        slirp.filter(program)
        # Nothing leaves before this, since the interface is down.
        network.link.open(list(network.wish.ranges))
        self._records.write(sandbox_id, slirp, _digest(network.wish))
        self._guard(sandbox_id, network, slirp)

    async def _widen(self, sandbox_id: str, network: _Network) -> None:
        """Allow more, and keep what is connected."""
        assert network.slirp is not None
        try:
            network.slirp.filter(network.wish.program())
        except OSError:  # another engine's child, which this kernel does not let us look into
            await self._start(sandbox_id, network)
            return
        self._records.write(sandbox_id, network.slirp, _digest(network.wish))
        network.link.open(list(network.wish.ranges))

    async def _stop(self, sandbox_id: str, network: _Network) -> None:
        with contextlib.suppress(OSError):  # its namespace is gone already
            network.link.shut()
        slirp, network.slirp = network.slirp, None
        if slirp is not None:
            await slirp.stop()
        self._records.remove(sandbox_id)

    def _guard(self, sandbox_id: str, network: _Network, slirp: Slirp) -> None:
        self._guards.spawn(self._revive(sandbox_id, network, slirp), "sbx-network")

    async def _revive(self, sandbox_id: str, network: _Network, slirp: Slirp) -> None:
        """Start another far end when one ends by itself."""
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
            slirp.leave()
            network.slirp = None
            await self._apply(sandbox_id, network, network.wish)

    def _failed(self, sandbox_id: str, error: Exception) -> None:
        _log.warning("sandbox %s has no full network: %s", sandbox_id, error)
        self._log(sandbox_id, f"There is no full network, only the proxy: {error}")


async def _write_resolver(network: _Network) -> None:
    text = network.wish.resolv_conf()
    if text == network.written:
        return
    file = await network.sandbox.files.open_write(_RESOLV_CONF, user="root")
    try:
        await file.write(text.encode())
    finally:
        await file.close()
    network.written = text


def _digest(wish: Wish) -> str:
    return hashlib.sha256(repr((wish.ranges, wish.resolves)).encode()).hexdigest()
