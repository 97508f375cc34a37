"""Adds headers to a sandbox's HTTPS requests, outside of the sandbox (``rules`` of interface 8.1).

For a CONNECT to a name that a rule matches, the proxy terminates TLS with its own certificate, adds
the rule's headers to each request and sends it over TLS to the real server, whose certificate it
verifies. Secrets are inserted into header values here, so that the sandbox never has them. A
request for another host than the one of the CONNECT is refused: many names share a server, which
would pass the secret on to whom ``Host`` names. Rules and secrets are read again for each request.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

import h11

from sbx_jupyter.engine.egress.policy import matches_domain
from sbx_jupyter.engine.egress.proxy.relay import relay
from sbx_jupyter.errors import SbxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
    from sbx_jupyter.engine.egress.proxy.dialer import Stream
    from sbx_jupyter.engine.egress.proxy.protocol import Proxy
    from sbx_jupyter.engine.egress.proxy.tunnel import HeaderRule, Tunnel

_ECHOING: Final = (b"TRACE", b"TRACK")
"""Methods that servers answer with the headers of the request, and so with the secret."""

SECRET: Final = re.compile(r"\$\{e2b\.secrets\.([A-Za-z0-9_-]+)\}")
_CHUNK: Final = 64 * 1024


@dataclass(slots=True)
class Interceptor:
    """The header rules of one sandbox.

    ``headers`` maps a domain pattern to the headers to set; an exact name comes before
    the longest wildcard, and only the headers of one pattern are set. ``secret(name)`` gives a
    secret's value or ``None``.
    """

    authority: CertificateAuthority
    headers: Mapping[str, HeaderRule]
    secret: Callable[[str], str | None] = lambda name: None
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def wants(self, host: str) -> bool:
        """Whether a rule matches the host."""
        return self.rule_for(host) is not None

    def rule_for(self, host: str) -> HeaderRule | None:
        """The rule that applies to the host; ``None`` if no rule matches."""
        found = [pattern for pattern in self.headers if matches_domain(host, pattern)]
        if not found:
            return None
        return self.headers[max(found, key=lambda item: (not item.startswith("*."), len(item)))]

    def headers_for(self, host: str) -> list[tuple[bytes, bytes]]:
        """The headers to set on requests to ``host``, with the values of secrets.

        Raises ``UnavailableError`` when a secret does not exist, since a request must not be sent
        with a placeholder in place of a credential.
        """
        rule = self.rule_for(host) or {}
        return [(name.encode(), self._fill(value).encode()) for name, value in rule.items()]

    async def serve(self, proxy: Proxy, inside: Stream, host: str, port: int) -> None:
        """Serve one CONNECT whose head has been read."""
        try:
            self.headers_for(host)  # without its secrets, nothing is sent to the server
            outside, tunnel = await proxy.open_tunnel(host, port, tls=self.trust)
        except (SbxError, ssl.SSLError) as error:
            proxy.refused(f"{host}:{port}", str(error))
            inside[1].write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        try:
            inside[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await inside[1].drain()
            await inside[1].start_tls(self.authority.context_for(host.lower()))
            await _Exchange(proxy, tunnel, (inside, outside), _Place(host, port)).run()
        except _RefusedRequestError as error:
            proxy.refused(f"{host}:{port}", error.message)
        finally:
            outside[1].close()

    def _fill(self, value: str) -> str:
        def replace(match: re.Match[str]) -> str:
            secret = self.secret(match[1])
            if secret is None:
                raise UnavailableError(f"the secret {match[1]} does not exist")
            return secret

        return SECRET.sub(replace, value)


class _RefusedRequestError(SbxError):
    """A request inside TLS was answered with an error and not forwarded."""


class _Place:
    """The host and port of a CONNECT."""

    def __init__(self, host: str, port: int) -> None:
        name = host.lower().rstrip(".").encode("ascii")
        names = [b"[%b]" % name] if b":" in name else [name, name + b"."]
        self._authorities = {*names, *(b"%b:%d" % (item, port) for item in names)}

    def why_not(self, request: h11.Request) -> str | None:
        """Why a request is not for this host and port; ``None`` if it is."""
        hosts = [value for name, value in request.headers if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._authorities:
            return "the Host header names another host"
        target = request.target
        if request.method == b"CONNECT":
            return "a CONNECT inside of TLS"
        if target.startswith(b"/") or target == b"*":
            return None
        scheme, _, rest = target.partition(b"://")
        authority = re.split(rb"[/?#\\]", rest, maxsplit=1)[0]
        if scheme.lower() == b"https" and authority.lower() in self._authorities:
            return None
        return "the target names another host"


class _Exchange:
    """Forwards the requests of one connection, with the added headers, and their responses."""

    def __init__(
        self, proxy: Proxy, tunnel: Tunnel, streams: tuple[Stream, Stream], place: _Place
    ) -> None:
        self._proxy, self._tunnel = proxy, tunnel
        self._inside, self._outside = streams
        self._place = place
        self._server = h11.Connection(h11.SERVER)
        self._client = h11.Connection(h11.CLIENT)

    async def run(self) -> None:
        """Forward requests until a side closes or switches protocols.

        Raises ``_RefusedRequestError`` after answering a request that must not be forwarded: with
        421 when it is for another host or the rule is gone, 403 when a secret is gone.
        """
        while True:
            request = await self._next_request()
            if request is None:
                return
            added = await self._headers_to_add()
            await self._send(self._client, self._outside, _with_headers(request, added))
            body = asyncio.create_task(self._pass_request_body())
            try:
                if not await self._pass_response():
                    await self._switch()
                    return
                await body
            finally:
                body.cancel()
                await asyncio.gather(body, return_exceptions=True)
            if self._server.states != {h11.SERVER: h11.DONE, h11.CLIENT: h11.DONE}:
                return
            if self._client.our_state is not h11.DONE:
                return
            self._server.start_next_cycle()
            self._client.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """The next request; ``None`` at the end."""
        try:
            event = await self._next(self._server, self._inside)
        except h11.RemoteProtocolError as error:
            # h11 itself refuses requests of HTTP/1.1 without a Host header or with several.
            status = 421 if "Host: header" in str(error) else error.error_status_hint
            await self._refuse(status, str(error))
        if not isinstance(event, h11.Request):
            return None
        if (reason := self._place.why_not(event)) is not None:
            await self._refuse(421, reason)
        if event.method.upper() in _ECHOING:
            await self._refuse(405, "servers answer this method with the headers of the request")
        return event

    async def _refuse(self, status: int, reason: str) -> NoReturn:
        body = f"{reason}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
        headers.append(("Content-Length", str(len(body))))
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            await self._send(self._server, self._inside, event)
        raise _RefusedRequestError(f"{status}: {reason}")

    async def _headers_to_add(self) -> list[tuple[bytes, bytes]]:
        """The headers of the current rule, which may be another than at the CONNECT."""
        host, interceptor = self._tunnel.host, self._proxy.interceptor
        rule = interceptor.rule_for(host) if interceptor is not None else None
        if interceptor is None or rule is None:
            await self._refuse(421, f"the header rule for {host} was removed; connect again")
        self._tunnel.rule = rule
        try:
            return interceptor.headers_for(host)
        except SbxError as error:
            await self._refuse(403, error.message)

    async def _pass_request_body(self) -> None:
        while True:
            event = await self._next(self._server, self._inside)
            if isinstance(event, h11.Data | h11.EndOfMessage):
                await self._send(self._client, self._outside, event)
            if not isinstance(event, h11.Data):
                return

    async def _pass_response(self) -> bool:
        """Forward one response; ``False`` when it switches protocols or the server closes."""
        while True:
            event = await self._next(self._client, self._outside)
            if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
                return False
            is_switch = isinstance(event, h11.InformationalResponse) and event.status_code == 101
            if is_switch:
                await self._keep_rule()
            await self._send(self._server, self._inside, event)
            if is_switch:
                return False
            if isinstance(event, h11.EndOfMessage):
                return True

    async def _keep_rule(self) -> None:
        """Bind the tunnel to the rule of its last request: there are none after a switch."""
        self._tunnel.keeps_rule = True
        try:
            self._proxy.check(self._tunnel)
        except SbxError as error:
            await self._refuse(421, error.message)

    async def _switch(self) -> None:
        """Relay bytes after a switch of protocols, first those that were read already."""
        self._inside[1].write(self._client.trailing_data[0])
        self._outside[1].write(self._server.trailing_data[0])
        await relay(self._inside, self._outside)

    @staticmethod
    async def _next(connection: h11.Connection, stream: Stream) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event  # pyright: ignore[reportReturnType] - h11: not NEED_DATA
            connection.receive_data(await stream[0].read(_CHUNK))

    @staticmethod
    async def _send(connection: h11.Connection, stream: Stream, event: h11.Event) -> None:
        data = connection.send(event)
        if data:
            stream[1].write(data)
            await stream[1].drain()


def _with_headers(request: h11.Request, added: list[tuple[bytes, bytes]]) -> h11.Request:
    names = {name.lower() for name, _ in added}
    # As the client wrote the names: some servers depend on upper and lower case.
    given = request.headers.raw_items()
    kept = [(name, value) for name, value in given if name.lower() not in names]
    return h11.Request(method=request.method, target=request.target, headers=[*kept, *added])
