"""The servers of a world: TCP, UDP, HTTP, HTTPS and DNS on every address of this namespace.

Run with the world's folder; each connection and datagram leaves a line in its file ``hits``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import struct
import sys
from itertools import count
from pathlib import Path

from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority

NAMES = {
    "server.test": ["20.0.0.10"],
    "api.test": ["20.0.0.10"],
    "www.api.test": ["20.0.0.10"],
    "other.test": ["20.0.0.11"],
    "inside.test": ["10.99.0.1"],
    "metadata.test": ["169.254.169.254"],
}
REBINDING = ("20.0.0.10", "169.254.169.254")
ECHO, HTTP, HTTPS, SILENT, FLOOD, DATAGRAMS = 7007, 8080, 8443, 7099, 7070, 7007


class Servers:
    def __init__(self, folder: Path) -> None:
        self.hits = (folder / "hits").open("a", buffering=1)
        self.turn = count()

    def hit(self, writer: asyncio.StreamWriter) -> None:
        self.hits.write(f"tcp {writer.get_extra_info('sockname')[0]}\n")

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hit(writer)
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()

    async def silent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says whom it talks to, and then only waits; its end leaves a line."""
        self.hit(writer)
        writer.write(b"hello\n")
        try:
            await reader.read()
        finally:
            self.hits.write("closed\n")

    async def flood(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hit(writer)
        chunk = b"x" * 65536
        while True:
            writer.write(chunk)
            await writer.drain()

    async def http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers with the request's own head."""
        self.hit(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
            self.hits.write(f"request {head.decode('latin-1')!r}\n")

    def guarded(self, handler):
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            except (OSError, EOFError):
                pass
            finally:
                writer.close()

        return serve


class Datagrams(asyncio.DatagramProtocol):
    """Answers each datagram with itself."""

    def __init__(self, servers: Servers, address: str) -> None:
        self.servers, self.address = servers, address

    def connection_made(self, transport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr) -> None:
        self.servers.hits.write(f"udp {self.address}\n")
        self.transport.sendto(data, addr)


class Resolver(Datagrams):
    """A records of ``NAMES``; ``rebind.test`` has another address each time, ``slow.test`` none."""

    def datagram_received(self, data: bytes, addr) -> None:
        if len(data) < 17:
            super().datagram_received(data, addr)
            return
        name, end = self.read_name(data)
        self.servers.hits.write(f"dns {name}\n")
        if name == "slow.test":
            return
        (kind,) = struct.unpack(">H", data[end : end + 2])
        found = NAMES.get(name)
        if name == "rebind.test":
            found = [REBINDING[next(self.servers.turn) % 2]]
        records = b""
        if kind == 1:
            for address in found or []:
                packed = ipaddress.IPv4Address(address).packed
                records += struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + packed
        code = 0 if found else 3
        amount = len(records) // 16
        head = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, amount, 0, 0)
        self.transport.sendto(head + data[12 : end + 4] + records, addr)

    @staticmethod
    def read_name(data: bytes) -> tuple[str, int]:
        labels, at = [], 12
        while size := data[at]:
            labels.append(data[at + 1 : at + 1 + size].decode("latin-1").lower())
            at += 1 + size
        return ".".join(labels), at + 1


async def main(folder: Path) -> None:
    servers = Servers(folder)
    authority = CertificateAuthority(folder)
    system = ssl.create_default_context().get_ca_certs(binary_form=True)
    bundle = [*map(ssl.DER_cert_to_PEM_cert, system), authority.certificate_pem]
    (folder / "trust.pem").write_text("".join(bundle))
    (folder / "trust.pem").chmod(0o644)
    contexts = {name: authority.context_for(name) for name in NAMES}
    secure = contexts["api.test"]
    secure.sni_callback = lambda sock, name, _: setattr(
        sock, "context", contexts.get(name or "", secure)
    )
    loop = asyncio.get_running_loop()
    kept: list[object] = []
    for port, handler, tls in (
        (ECHO, servers.echo, None), (SILENT, servers.silent, None), (FLOOD, servers.flood, None),
        (HTTP, servers.http, None), (HTTPS, servers.http, secure), (80, servers.http, None),
    ):  # fmt: skip
        kept.append(await asyncio.start_server(servers.guarded(handler), "0.0.0.0", port, ssl=tls))
    await loop.create_datagram_endpoint(lambda: Resolver(servers, "20.0.0.53"), ("20.0.0.53", 53))
    for address in ("20.0.0.10", "20.0.0.11", "20.0.0.53", "10.99.0.1", "169.254.169.254",
                    "172.20.0.1", "192.168.77.1", "100.64.7.1", "198.18.0.1"):  # fmt: skip
        await loop.create_datagram_endpoint(
            lambda address=address: Datagrams(servers, address), (address, DATAGRAMS)
        )
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
