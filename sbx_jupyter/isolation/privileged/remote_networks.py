"""The full network of sandboxes as the helper connects it; the methods of the local class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.full_network.connections import TapConnections
from sbx_jupyter.isolation.full_network.slirp import Slirp
from sbx_jupyter.isolation.privileged import messages

if TYPE_CHECKING:
    import socket

    from sbx_jupyter.isolation.cage import Cage
    from sbx_jupyter.isolation.full_network.connections import TapRules
    from sbx_jupyter.isolation.privileged.connection import HelperConnection

_TIMEOUT: Final = 60.0


class RemoteTapConnections:
    """Connects the interfaces of sandboxes by asking the helper."""

    def __init__(self, connection: HelperConnection) -> None:
        self._call = connection.call

    async def connect(self, cage: Cage, sock: socket.socket, rules: TapRules) -> Slirp:
        message = messages.ConnectTap(
            sandbox_id=cage.sandbox_id, ranges=list(rules.ranges), resolves=rules.resolves
        )
        body, fds = await self._call(message, [sock.fileno()], _TIMEOUT)
        slirp = _slirp(body["pid"], fds)
        if slirp is None:
            raise UnavailableError("the helper connected no network")
        return slirp

    async def widen(self, sandbox_id: str, sock: socket.socket, rules: TapRules) -> bool:
        message = messages.WidenTap(
            sandbox_id=sandbox_id, ranges=list(rules.ranges), resolves=rules.resolves
        )
        return (await self._call(message, [sock.fileno()], _TIMEOUT))[0]["done"]

    async def disconnect(self, sandbox_id: str, sock: socket.socket) -> None:
        message = messages.DisconnectTap(sandbox_id=sandbox_id)
        await self._call(message, [sock.fileno()], _TIMEOUT)

    async def adopt(self, sandbox_id: str, rules: TapRules) -> Slirp | None:
        message = messages.AdoptTap(
            sandbox_id=sandbox_id, ranges=list(rules.ranges), resolves=rules.resolves
        )
        body, fds = await self._call(message, timeout=_TIMEOUT)
        return _slirp(body["pid"], fds)

    async def collect(self, known: set[str]) -> None:
        await self._call(messages.CollectTaps(known=sorted(known)), timeout=_TIMEOUT)


AnyTapConnections = TapConnections | RemoteTapConnections
"""The connections of an engine's sandboxes, made by itself or by its helper."""


def _slirp(pid: int | None, fds: list[int]) -> Slirp | None:
    if pid is None or len(fds) != 1:
        wire.close_all(fds)
        return None
    return Slirp(pid, fds.pop(), None)
