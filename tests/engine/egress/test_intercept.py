"""Headers are added to HTTPS requests outside of the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
from sbx_jupyter.engine.egress.proxy.intercept import Interceptor
from sbx_jupyter.errors import UnavailableError
from tests.engine.egress.conftest import RunningProxy, loopback_policy


async def show_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its own head and body."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        size = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        body = head + await reader.readexactly(size)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


@pytest.fixture
async def intercepting(running_proxy: RunningProxy, authority: CertificateAuthority, serve):
    """The proxy with a rule for localhost, and the port of a TLS server behind it."""
    port = await serve(show_requests, authority.context_for("localhost"))
    trust = ssl.create_default_context(cadata=authority.certificate_pem)
    interceptor = Interceptor(
        authority,
        {"localhost": {"Authorization": "Bearer ${e2b.secrets.token}", "X-Team": "blue"}},
        secret={"token": "s3cret"}.get,
        trust=trust,
    )
    running_proxy.proxy.update(loopback_policy(), interceptor=interceptor)
    return running_proxy, port, trust


async def open_tls(running: RunningProxy, port: int, trust: ssl.SSLContext):
    reader, writer = await running.open()
    writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    await writer.start_tls(trust, server_hostname="localhost")
    return reader, writer


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    return await reader.readexactly(size)


async def test_every_request_of_a_connection_gets_the_headers(intercepting) -> None:
    running, port, trust = intercepting
    reader, writer = await open_tls(running, port, trust)

    for turn in range(3):
        body = b"body %d" % turn
        writer.write(
            b"POST /%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: forged\r\n"
            b"Content-Length: %d\r\n\r\n" % (turn, len(body)) + body
        )
        seen = await read_answer(reader)

        assert seen.startswith(b"POST /%d HTTP/1.1" % turn)
        assert b"Authorization: Bearer s3cret" in seen
        assert b"X-Team: blue" in seen
        assert b"forged" not in seen
        assert seen.endswith(body)
    writer.close()


async def test_a_server_that_cannot_prove_its_name_gets_no_headers(
    intercepting, tmp_path_factory, serve
) -> None:
    running, _, _ = intercepting
    other = CertificateAuthority(tmp_path_factory.mktemp("other"))
    seen: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(65536))

    port = await serve(record, other.context_for("localhost"))
    reader, writer = await running.open()
    writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())

    assert (await reader.readuntil(b"\r\n\r\n")).startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))
    assert seen in ([], [b""])
    writer.close()


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "trace"])
async def test_no_method_asks_a_server_for_the_headers_that_were_added(
    method: str, intercepting
) -> None:
    running, port, trust = intercepting
    reader, writer = await open_tls(running, port, trust)
    writer.write(f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"s3cret" not in answer
    writer.close()


def test_an_exact_name_beats_the_longest_wildcard(authority: CertificateAuthority) -> None:
    rules = Interceptor(
        authority,
        {"*.example.com": {"A": "1"}, "*.b.example.com": {"A": "2"}, "a.b.example.com": {"A": "3"}},
    )

    assert rules.headers_for("a.b.example.com") == [(b"A", b"3")]
    assert rules.headers_for("x.b.example.com") == [(b"A", b"2")]
    assert rules.headers_for("x.example.com") == [(b"A", b"1")]
    assert not rules.wants("example.com")


def test_a_missing_secret_is_an_error_and_never_a_placeholder(
    authority: CertificateAuthority,
) -> None:
    rules = Interceptor(authority, {"a.example": {"A": "${e2b.secrets.gone}"}})

    with pytest.raises(UnavailableError, match="gone does not exist"):
        rules.headers_for("a.example")


def test_the_authority_is_made_once_and_kept_private(tmp_path) -> None:
    first = CertificateAuthority(tmp_path).certificate_pem

    assert CertificateAuthority(tmp_path).certificate_pem == first
    assert (tmp_path / "egress-ca.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", ["egress-ca.key", "egress-ca.pem"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN", "of another"])
def test_an_authority_that_is_not_whole_is_made_again(
    tmp_path, damaged: str, content: bytes | str | None
) -> None:
    """As an engine leaves it that is killed meanwhile, or a machine that loses its power."""
    earlier = CertificateAuthority(tmp_path).certificate_pem
    if content is None:
        (tmp_path / damaged).unlink()
    elif isinstance(content, bytes):
        (tmp_path / damaged).write_bytes(content)
    else:
        (tmp_path / "other").mkdir()
        CertificateAuthority(tmp_path / "other")
        (tmp_path / "other" / damaged).replace(tmp_path / damaged)

    made = CertificateAuthority(tmp_path)

    assert made.certificate_pem != earlier
    assert CertificateAuthority(tmp_path).certificate_pem == made.certificate_pem
    made.context_for("a.example")


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: evil.example\r\n",
        "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n",
        "GET / HTTP/1.1\r\nHost: localhost:1\r\n",
        "GET / HTTP/1.1\r\nHost: evil@localhost\r\n",
        "GET / HTTP/1.1\r\nHost: localhost, evil.example\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        "GET / HTTP/1.1\r\nX: y\r\n",
        "GET / HTTP/1.0\r\nX: y\r\n",
        "GET / HTTP/1.0\r\nHost: evil.example\r\n",
        "GET https://evil.example/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET https://evil.example\\@localhost/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET https://localhost@evil.example/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET evil.example HTTP/1.1\r\nHost: localhost\r\n",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n",
        "CONNECT / HTTP/1.1\r\nHost: localhost\r\n",
    ],
)
@pytest.mark.parametrize("turn", ["first", "second"])
async def test_a_request_for_another_host_gets_no_secret(
    head: str, turn: str, authority: CertificateAuthority, running_proxy: RunningProxy, serve
) -> None:
    seen: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    port = await serve(record, authority.context_for("localhost"))
    trust = ssl.create_default_context(cadata=authority.certificate_pem)
    rules = {"localhost": {"Authorization": "s3cret"}}
    interceptor = Interceptor(authority, rules, trust=trust)
    running_proxy.proxy.update(loopback_policy(), interceptor=interceptor)
    reader, writer = await open_tls(running_proxy, port, trust)
    if turn == "second":
        writer.write(b"GET /before HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await read_answer(reader) == b"ok"

    writer.write(f"{head}\r\n".encode())

    assert (await reader.readline()).startswith(b"HTTP/1.1 421 ")
    await reader.read()
    assert len(seen) == (turn == "second")
    assert [target for target, _ in running_proxy.refusals] == [f"localhost:{port}"]
    writer.close()


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: LOCALHOST\r\n",
        "GET / HTTP/1.1\r\nHost: localhost.\r\n",
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\n",
        "GET / HTTP/1.0\r\nHost: localhost\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n",
        "GET //evil.example/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET https://localhost:{port}/ HTTP/1.1\r\nHost: localhost\r\n",
    ],
)
async def test_requests_for_the_same_host_pass(intercepting, head: str) -> None:
    running, port, trust = intercepting
    reader, writer = await open_tls(running, port, trust)

    writer.write(f"{head.format(port=port)}\r\n".encode())

    assert b"Bearer s3cret" in await read_answer(reader)
    writer.close()
