"""Sends one request to a port of a sandbox: on a kept connection, or through the deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.client.api.transport import translated_errors
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.server.ports import wire
from sbx_jupyter.server.ports.tunnel import BrokenAnswerError, ClosedPortError, TunnelRefusedError
from sbx_jupyter.server.ports.upstream import attempts, is_closed_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from sbx_jupyter.server.ports.tunnels import Tunnels
    from sbx_jupyter.server.ports.upstream import Upstream
    from sbx_jupyter.server.ports.wire import Headers

READING: Final = ("GET", "HEAD")
_ERROR_LIMIT: Final = 64 * 1024


class PortAnswer(Protocol):
    """The answer of a program."""

    status: int
    headers: Headers

    async def receive(self) -> bytes:
        """The next piece of the body, empty at its end; raises ``SbxError``."""
        ...

    async def receive_soon(self) -> bytes | None:
        """A piece that is here already or comes within a moment, else ``None``."""
        ...

    async def aclose(self) -> None:
        """End with the answer, whether or not all of it was received."""
        ...


@dataclass(frozen=True, slots=True)
class PortRequest:
    """A request as the program gets it; ``headers`` are without those that route it."""

    method: str
    target: str
    headers: Headers
    body: AsyncIterator[bytes] | None = None


async def send(tunnels: Tunnels, upstream: Upstream, request: PortRequest) -> PortAnswer:
    """Send a request; waits for a program that starts, as long as nothing was sent to it.

    Raises ``UnavailableError`` when nothing answers.
    """
    async for is_last in attempts():
        try:
            return await _send(tunnels, upstream, request)
        except ClosedPortError:
            if is_last:
                break
    raise UnavailableError(f"nothing answers on port {upstream.port} of the sandbox")


async def _send(tunnels: Tunnels, upstream: Upstream, request: PortRequest) -> PortAnswer:
    if upstream.has_tunnels:
        try:
            return await _on_tunnel(tunnels, upstream, request)
        except TunnelRefusedError:
            pass  # what the deployment answers to the request itself says why
    return await _forwarded(upstream, request)


async def _on_tunnel(tunnels: Tunnels, upstream: Upstream, request: PortRequest) -> PortAnswer:
    host = upstream.host or f"localhost:{upstream.port}"
    headers = [("Host", host), *request.headers]
    if all(name.lower() != "accept-encoding" for name, _ in headers):
        headers.append(("Accept-Encoding", "identity"))
    # A program may close a connection just when it is used again. Requests that change nothing are
    # then sent once more; all others get a connection of their own.
    may_be_used = request.method in READING and request.body is None
    while True:
        tunnel = await tunnels.take(upstream, may_be_used=may_be_used)
        may_be_used = False
        try:
            answer = await wire.request(
                tunnel, request.method, request.target, headers, request.body
            )
        except BrokenAnswerError:
            tunnel.close()
            if not tunnel.was_used:
                raise
        except BaseException:
            tunnel.close()
            raise
        else:
            return _TunnelAnswer(tunnels, upstream, answer)


class _TunnelAnswer:
    """An answer on a connection that is kept for the next request."""

    def __init__(self, tunnels: Tunnels, upstream: Upstream, answer: wire.Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.receive = answer.receive
        self.receive_soon = answer.receive_soon
        self._answer = answer
        self._tunnels = tunnels
        self._upstream = upstream

    async def aclose(self) -> None:
        if (tunnel := self._answer.close()) is not None:
            self._tunnels.give_back(self._upstream, tunnel)


async def _forwarded(upstream: Upstream, request: PortRequest) -> PortAnswer:
    """Send a request through a deployment that knows no tunnels."""
    headers: dict[str, str] = {"Accept-Encoding": "identity"}
    for name, value in [*request.headers, *upstream.routing()]:
        known = next((each for each in headers if each.lower() == name.lower()), None)
        joined = known is not None and name.lower() not in ("accept-encoding", "host")
        headers[known or name] = f"{headers[known]}, {value}" if joined and known else value
    response = await upstream.runtime.transport.open(
        request.method,
        upstream.url + request.target,
        headers=headers,
        content=request.body,
        timeout=0,
    )
    answer = _ForwardedAnswer(response)
    if answer.status == 502 and request.method in READING:
        return await _unless_closed(answer)
    return answer


async def _unless_closed(answer: _ForwardedAnswer) -> PortAnswer:
    """An error that is read already; raises ``ClosedPortError`` if it says that."""
    read = bytearray()
    try:
        while len(read) <= _ERROR_LIMIT and (piece := await answer.receive()):
            read += piece
    finally:
        await answer.aclose()
    if is_closed_port(answer.status, bytes(read)):
        raise ClosedPortError("nothing listens on the port yet")
    raise BrokenAnswerError("the deployment cannot reach the program")


class _ForwardedAnswer:
    """An answer of ``httpx``."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in response.headers.raw
        ]
        self._response = response
        self._pieces = response.aiter_raw()

    async def receive(self) -> bytes:
        with translated_errors():
            return await anext(self._pieces, b"")

    async def receive_soon(self) -> bytes | None:
        return None  # waiting for a piece could not be given up

    async def aclose(self) -> None:
        await self._response.aclose()
