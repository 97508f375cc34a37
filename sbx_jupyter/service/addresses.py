"""Binds the address of an engine, which stays the same after a restart."""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

_BACKLOG: Final = 512


@dataclass(slots=True)
class Listener:
    """Bound sockets and their address."""

    sockets: list[socket.socket]
    ip: str
    port: int
    port_file: Path

    @classmethod
    def bind(cls, ip: str, port: int, data_dir: Path) -> Listener:
        """Bind ``port``; for 0, the last port of this data directory if it is free, else any port.

        Raises ``InvalidArgumentError`` when the address cannot be bound.
        """
        port_file = data_dir / "port"
        for candidate in [port] if port else [*_last_port(port_file), 0]:
            try:
                sockets = _bind(ip, candidate)
            except OSError as error:
                if port == 0 and candidate:
                    continue
                raise InvalidArgumentError(_explain(ip, candidate, error)) from None
            return cls(sockets, ip, sockets[0].getsockname()[1], port_file)
        raise InvalidArgumentError(f"no port of {ip} is free")

    @property
    def url(self) -> str:
        """The base URL for clients on this machine."""
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.ip, self.ip)
        if ":" in name and not name.startswith("["):
            name = f"[{name}]"
        return f"http://{name}:{self.port}"

    def store_port(self) -> None:
        """Store the port for the next start."""
        with contextlib.suppress(OSError):
            self.port_file.write_text(f"{self.port}\n")

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


def _bind(ip: str, port: int) -> list[socket.socket]:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    sock = socket.create_server((ip, port), family=family, backlog=_BACKLOG)
    sock.setblocking(False)
    return [sock]


def _last_port(port_file: Path) -> list[int]:
    try:
        port = int(port_file.read_text()[:16])
    except (OSError, ValueError):
        return []
    return [port] if 0 < port < 65536 else []


def _explain(ip: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {ip} is taken by another program; choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this user has; choose one above 1023"
    return f"cannot listen on {ip} port {port}: {error.strerror or error}"
