"""Carries out the helper's messages about the full network of sandboxes."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent.procfs import has_ended
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError
from sbx_jupyter.isolation.full_network.connections import TapConnections, TapRules
from sbx_jupyter.isolation.full_network.link import Link
from sbx_jupyter.isolation.privileged import messages as asked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sbx_jupyter.isolation.cage import Cage

_DONE: Final[dict[str, object]] = {}


class NetworkOperations:
    """Runs messages about interfaces; ``living`` finds the cage of a sandbox that lives."""

    def __init__(
        self, connections: TapConnections, living: Callable[[str], Cage | None], *, full: bool
    ) -> None:
        self._connections = connections
        self._living = living
        self._full = full

    async def run(
        self, message: asked.OfNetwork | asked.CollectTaps, fds: list[int], given: list[int]
    ) -> dict[str, Any]:
        """Do what a message asks; see ``Operations.run``."""
        match message:
            case asked.ConnectTap():
                return await self._connect(message, fds, given)
            case asked.WidenTap():
                with as_socket(_given(fds)) as sock:
                    self._check(message.sandbox_id, sock)
                    rules = _rules(message)
                    done = await self._connections.widen(message.sandbox_id, sock, rules)
                return {"done": done}
            case asked.DisconnectTap():
                with as_socket(_given(fds)) as sock:
                    if self._living(message.sandbox_id) is not None:
                        self._check(message.sandbox_id, sock)
                    await self._connections.disconnect(message.sandbox_id, sock)
            case asked.AdoptTap():
                slirp = await self._connections.adopt(message.sandbox_id, _rules(message))
                if slirp is None:
                    return {"pid": None}
                given.append(os.dup(slirp.pidfd))
                return {"pid": slirp.pid}
            case asked.CollectTaps():
                await self._connections.collect(set(message.known))
            case _:
                raise InvalidArgumentError(f"{type(message).__name__} is no message for here")
        return _DONE

    async def _connect(
        self, message: asked.ConnectTap, fds: list[int], given: list[int]
    ) -> dict[str, Any]:
        if not self._full:
            raise FailedPreconditionError("sandboxes of this engine have no full network")
        with as_socket(_given(fds)) as sock:
            cage = self._check(message.sandbox_id, sock)
            slirp = await self._connections.connect(cage, sock, _rules(message))
        given.append(os.dup(slirp.pidfd))
        return {"pid": slirp.pid}

    def _check(self, sandbox_id: str, sock: socket.socket) -> Cage:
        """The cage of a sandbox, whose network the socket is of: no other one is changed."""
        cage = self._living(sandbox_id)
        if cage is None:
            raise FailedPreconditionError(f"there is no sandbox {sandbox_id}")
        with contextlib.closing(Link(sock.dup())) as link:
            if not link.belongs_to(cage.pid) or has_ended(cage.pidfd):
                raise InvalidArgumentError(f"the socket is none of sandbox {sandbox_id}")
        return cage


def _rules(message: asked.ConnectTap | asked.WidenTap | asked.AdoptTap) -> TapRules:
    """Rules with ranges in order, so that none of them ends before it begins."""
    bounds = [bound for each in message.ranges for bound in each]
    if bounds != sorted(bounds):
        raise InvalidArgumentError("the ranges of addresses are not in order")
    return TapRules(tuple(message.ranges), message.resolves)


@contextlib.contextmanager
def as_socket(descriptor: int) -> Generator[socket.socket]:
    """The socket behind a descriptor, which stays open. Raises ``InvalidArgumentError``."""
    own = os.dup(descriptor)
    try:
        sock = socket.socket(fileno=own)
    except OSError as error:
        os.close(own)
        raise InvalidArgumentError("the descriptor is no socket") from error
    with sock:
        yield sock


def _given(fds: list[int]) -> int:
    if len(fds) != 1:
        raise InvalidArgumentError("a network needs one socket of its sandbox")
    return fds[0]
