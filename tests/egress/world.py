"""A machine and an internet of its own for tests, in network namespaces that lead nowhere else.

The machine's namespace is where an engine runs. Its default route leads to the other one, where
servers wait on public-looking and on private addresses; neither has a way to a real network. The
test reaches the engine by a pair of interfaces between the machine and itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "20.0.0.10"
OTHER = "20.0.0.11"
RESOLVER = "20.0.0.53"
MACHINE = "20.0.0.1"
"""The machine's own public address."""

PRIVATE = ("10.99.0.1", "172.20.0.1", "192.168.77.1", "100.64.7.1", "169.254.169.254", "198.18.0.1")
"""Of servers that no sandbox may reach."""

MISSING = next(
    (
        reason
        for found, reason in (
            (os.getuid() == 0, "making network namespaces needs root"),
            (shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin"), "ip is missing (iproute2)"),
            (shutil.which("unshare"), "unshare is missing (util-linux)"),
        )
        if not found
    ),
    None,
)
NO_FULL_NETWORK = MISSING or (
    None if shutil.which("slirp4netns") else "slirp4netns is missing (package slirp4netns)"
)


@dataclass(frozen=True)
class World:
    """What a test needs to know of it."""

    engine_ip: str
    prefix: tuple[str, ...]
    """Before a command: it runs on the machine of this world."""
    services: Path
    """A file with a line for each connection and datagram that a server got."""
    authority: Path
    """Certificates of the servers' authority and the system's, as PEM."""

    def hits(self) -> list[str]:
        return self.services.read_text().splitlines()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def open_world() -> Iterator[World]:
    """Make it all, and take it away again."""
    tag = f"{os.getpid() % 100000}"
    machine, internet = f"sbx-m-{tag}", f"sbx-i-{tag}"
    third = os.getpid() % 250
    outside, inside = f"10.213.{third}.1", f"10.213.{third}.2"
    folder = Path(tempfile.mkdtemp(prefix="sbx-world-", dir="/tmp"))
    folder.chmod(0o755)
    server = None
    try:
        for name in (machine, internet):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", f"sbxo{tag}", "type", "veth", "peer", "sbxi", "netns", machine)
        _ip("addr", "add", f"{outside}/30", "dev", f"sbxo{tag}")
        _ip("link", "set", f"sbxo{tag}", "up")
        _ip("-n", machine, "addr", "add", f"{inside}/30", "dev", "sbxi")
        _ip("-n", machine, "link", "set", "sbxi", "up")
        _ip("-n", machine, "link", "add", "wan", "type", "veth", "peer", "wan", "netns", internet)
        _ip("-n", machine, "addr", "add", f"{MACHINE}/24", "dev", "wan")
        for address in (SERVER, OTHER, RESOLVER):
            _ip("-n", internet, "addr", "add", f"{address}/24", "dev", "wan")
        for address in PRIVATE:
            _ip("-n", internet, "addr", "add", f"{address}/32", "dev", "lo")
        for name in (machine, internet):
            _ip("-n", name, "link", "set", "wan", "up")
        _ip("-n", machine, "route", "add", "default", "via", SERVER)
        world = World(inside, _enter(folder, machine), folder / "hits", folder / "trust.pem")
        server = _serve(folder, internet)
        yield world
    finally:
        if server is not None:
            server.kill()
            server.wait()
        for name in (machine, internet):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", f"sbxo{tag}"], check=False, capture_output=True)
        shutil.rmtree(folder)


def _enter(folder: Path, machine: str) -> tuple[str, ...]:
    """Run in the machine's namespace, with its own resolver and a device that everybody may open."""
    (folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
    script = (
        f"mount --bind {folder}/resolv.conf /etc/resolv.conf"
        f" && if mknod -m 666 {folder}/tun c 10 200 2>/dev/null;"
        f" then mount --bind {folder}/tun /dev/net/tun; fi"
        f' && rm -f {folder}/tun && exec nsenter --net=/run/netns/{machine} "$@"'
    )
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "world")


def _serve(folder: Path, internet: str) -> subprocess.Popen[bytes]:
    (folder / "hits").touch()
    script = str(Path(__file__).with_name("world_servers.py"))
    server = subprocess.Popen(
        ["ip", "netns", "exec", internet, sys.executable, "-P", script, str(folder)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == b"ready\n", "the servers of the world did not start"
    return server
