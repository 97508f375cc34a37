"""Certificates are verified whatever was called before, by the authorities that were named."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tornado.websocket import WebSocketError

from sbx_jupyter.client import ConnectionConfig
from sbx_jupyter.client.api.transport import Transport
from sbx_jupyter.client.connection import tls
from sbx_jupyter.client.templates.templates import TemplateClient
from sbx_jupyter.errors import InvalidArgumentError, UnavailableError
from sbx_jupyter.kernel.relay import connect

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SBX_CA_FILE", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def no_authorities(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate for this machine that its own key signed, and the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return public, private


@contextlib.asynccontextmanager
async def server(certificate=None, host="127.0.0.1"):
    """Answer ``{}`` to every request; yields the port and the heads that were received."""
    heads: list[bytes] = []

    async def answer(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(ANSWER)
            await writer.drain()
        writer.close()

    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    listening = await asyncio.start_server(answer, host, 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1], heads


@contextlib.asynccontextmanager
async def transport(**settings):
    made = Transport(
        ConnectionConfig(api_url="http://127.0.0.1:1", api_key="key", attempts=1, **settings)
    )
    try:
        yield made
    finally:
        await made.aclose()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_call_over_http_does_not_end_verification(certificate, host):
    async with server() as (plain, _), server(certificate) as (secure, heads), transport() as made:
        for _ in range(2):
            assert (await made.request("GET", f"http://{host}:{plain}/")).status_code == 200
            with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                await made.request("GET", f"https://{host}:{secure}/")
    assert not heads


@pytest.mark.parametrize("order", [("http", "https"), ("https", "http")])
@pytest.mark.parametrize("source", ["SSL_CERT_FILE", "SSL_CERT_DIR", "ca_file"])
async def test_named_authorities_are_trusted(certificate, tmp_path, monkeypatch, source, order):
    settings = {}
    if source == "ca_file":
        monkeypatch.setenv("SSL_CERT_FILE", "/not/looked/at")
        settings = {"ca_file": str(certificate[0])}
    elif source == "SSL_CERT_DIR":
        _put_in_hashed_folder(certificate[0], tmp_path)
        monkeypatch.setenv(source, str(tmp_path))
    else:
        monkeypatch.setenv(source, str(certificate[0]))
    async with server() as (plain, _), server(certificate) as (secure, _):
        ports = {"http": plain, "https": secure}
        async with transport(**settings) as made:
            for scheme in order:
                url = f"{scheme}://localhost:{ports[scheme]}/"
                assert (await made.request("GET", url)).status_code == 200


async def test_a_trusted_certificate_for_another_name_is_refused(certificate):
    settings = {"ca_file": str(certificate[0])}
    other = "127.0.0.2"
    async with server(certificate, other) as (secure, heads), transport(**settings) as made:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await made.request("GET", f"https://{other}:{secure}/")
    assert not heads


@pytest.mark.parametrize("trusted", [True, False])
async def test_uploads_verify_as_well(certificate, tmp_path, trusted):
    (tmp_path / "image.tar").write_bytes(b"image")
    ca_file = str(certificate[0]) if trusted else None
    async with server(certificate) as (secure, heads):
        config = ConnectionConfig(
            api_url=f"https://localhost:{secure}", api_key="key", ca_file=ca_file
        )
        async with TemplateClient(config) as client:
            with (tmp_path / "image.tar").open("rb") as file:
                if trusted:
                    # The answer is no record of an image; the request arrived.
                    with pytest.raises(ValueError, match="missing required field"):
                        await client.import_image("x", file)
                else:
                    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                        await client.import_image("x", file)
    assert bool(heads) is trusted


async def test_http_on_this_machine_makes_no_context(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a context was made")

    monkeypatch.setattr(ssl, "create_default_context", refuse)
    async with server() as (plain, _), transport() as made:
        assert (await made.request("GET", f"http://127.0.0.1:{plain}/")).status_code == 200


async def test_the_channels_of_a_kernel_trust_what_the_connection_trusts(certificate):
    async with server(certificate) as (port, heads):
        url = f"https://localhost:{port}"
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(url, {}, "token", None)
        assert not heads
        with pytest.raises(WebSocketError):  # it answers, but with no WebSocket
            await connect(url, {}, "token", str(certificate[0]))
    assert heads


def test_a_file_that_cannot_be_used_is_named(tmp_path, monkeypatch):
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    for path, said in ((junk, "no certificates in PEM form"), (tmp_path / "none", "No such file")):
        with pytest.raises(InvalidArgumentError, match=said) as caught:
            ConnectionConfig(api_url="https://x.example", api_key="key", ca_file=str(path))
        assert str(path) in str(caught.value)
    monkeypatch.setenv("SSL_CERT_FILE", str(junk))
    with pytest.raises(InvalidArgumentError, match="SSL_CERT_FILE"):
        tls.create_context(None)


def test_the_environment_names_the_file(certificate, monkeypatch):
    monkeypatch.setenv("E2B_API_URL", "https://localhost:1")
    monkeypatch.setenv("E2B_API_KEY", "key")
    monkeypatch.setenv("SBX_CA_FILE", str(certificate[0]))

    assert ConnectionConfig.from_env().ca_file == str(certificate[0])


def _put_in_hashed_folder(public, folder):
    """Store a certificate under the name by which OpenSSL looks for it."""
    said = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", public],
        check=True,
        capture_output=True,
        text=True,
    )
    (folder / f"{said.stdout.strip()}.0").write_bytes(public.read_bytes())
