"""Connects the tap interfaces of sandboxes to the network of the machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.full_network import tap_filter
from sbx_jupyter.isolation.full_network.link import RESOLVER, Link
from sbx_jupyter.isolation.full_network.slirp import Slirp, SlirpRecords, start_slirp

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from sbx_jupyter.isolation.cage import Cage
    from sbx_jupyter.isolation.full_network.tap_filter import Range

FOLDER: Final = "networks"
"""Folder of the data directory for the records of running slirp4netns."""

_UNFINISHED: Final = "unfinished"


@dataclass(frozen=True, slots=True)
class TapRules:
    """The traffic that a sandbox may send through its interface."""

    ranges: tuple[Range, ...]
    resolves: bool
    """Whether it may ask the resolver of the machine."""

    def program(self) -> bytes:
        """The packet filter; raises ``InvalidArgumentError`` when there are too many ranges."""
        return tap_filter.build(self.ranges, int(RESOLVER) if self.resolves else None)

    def digest(self) -> str:
        """A digest that is the same for equal rules, also in another engine."""
        return hashlib.sha256(repr((self.ranges, self.resolves)).encode()).hexdigest()


class TapConnections:
    """Connections of all sandboxes of a data directory; ``sock`` is always a sandbox's socket."""

    def __init__(self, data_dir: Path) -> None:
        self._records = SlirpRecords(data_dir / FOLDER)
        self._running: dict[str, Slirp] = {}
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def connect(self, cage: Cage, sock: socket.socket, rules: TapRules) -> Slirp:
        """Connect a sandbox, in place of a former connection; gives the process that serves it.

        Raises ``SbxError`` and ``OSError``; the sandbox is disconnected then.
        """
        program = rules.program()
        sandbox_id = cage.sandbox_id
        async with self._lock(sandbox_id):
            with contextlib.closing(Link(sock.dup())) as link:
                link.bring_down()
                await self._end(sandbox_id)
                slirp = self._running[sandbox_id] = await start_slirp(link, cage.pidfd)
                try:
                    self._records.write(sandbox_id, slirp, _UNFINISHED)
                    slirp.filter(program)
                    # Until now the interface was down, so nothing was sent without the filter.
                    link.bring_up(rules.ranges)
                    self._records.write(sandbox_id, slirp, rules.digest())
                except BaseException:
                    _take_down(link)
                    await asyncio.shield(self._end(sandbox_id))
                    raise
        return slirp

    async def widen(self, sandbox_id: str, sock: socket.socket, rules: TapRules) -> bool:
        """Allow more addresses, and keep the open connections; whether that was possible.

        Raises ``SbxError`` and ``OSError``.
        """
        program = rules.program()
        async with self._lock(sandbox_id):
            if (slirp := self._found(sandbox_id)) is None:
                return False
            with contextlib.closing(Link(sock.dup())) as link:
                try:
                    slirp.filter(program)
                except OSError:  # an earlier engine started it, and this kernel denies access to it
                    return False
                self._records.write(sandbox_id, slirp, rules.digest())
                link.bring_up(rules.ranges)
            return True

    async def disconnect(self, sandbox_id: str, sock: socket.socket) -> None:
        """End the connection of a sandbox, if it has one."""
        async with self._lock(sandbox_id):
            with contextlib.suppress(OSError), contextlib.closing(Link(sock.dup())) as link:
                _take_down(link)
            await self._end(sandbox_id)

    async def adopt(self, sandbox_id: str, rules: TapRules) -> Slirp | None:
        """The process that an earlier engine started with the same rules; another one is ended."""
        async with self._lock(sandbox_id):
            if (found := self._records.adopt(sandbox_id)) is None:
                return None
            slirp, digest = found
            if digest != rules.digest():
                await slirp.stop()
                return None
            self._keep(sandbox_id, slirp)
            return slirp

    async def collect(self, known: set[str]) -> None:
        """End the connections of sandboxes that are not in ``known``."""
        for sandbox_id in self._records.names():
            if sandbox_id not in known:
                async with self._lock(sandbox_id):
                    await self._end(sandbox_id)

    def _lock(self, sandbox_id: str) -> asyncio.Lock:
        return self._locks.setdefault(sandbox_id, asyncio.Lock())

    def _found(self, sandbox_id: str) -> Slirp | None:
        """The process that serves a sandbox, also when an earlier process of ours started it."""
        slirp = self._running.get(sandbox_id)
        if slirp is None and (found := self._records.adopt(sandbox_id)) is not None:
            slirp = found[0]
            self._keep(sandbox_id, slirp)
        return slirp

    def _keep(self, sandbox_id: str, slirp: Slirp) -> None:
        former = self._running.pop(sandbox_id, None)
        if former is not None:
            former.detach()
        self._running[sandbox_id] = slirp

    async def _end(self, sandbox_id: str) -> None:
        if (slirp := self._found(sandbox_id)) is not None:
            await slirp.stop()
        self._running.pop(sandbox_id, None)
        self._records.remove(sandbox_id)


def _take_down(link: Link) -> None:
    with contextlib.suppress(OSError):  # its namespace is gone already
        link.bring_down()
