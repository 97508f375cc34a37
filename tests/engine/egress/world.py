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

UID = 1489
"""Of the ordinary user."""

PYTHON = "/usr/bin/python3"
"""One that every user may execute."""

_ACCOUNTS = ("passwd", "subuid", "subgid")

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
    machine: str
    """The namespace of the machine."""
    folder: Path

    @property
    def authority(self) -> Path:
        """Certificates of the servers' authority and the system's, as PEM."""
        return self.folder / "trust.pem"

    def hits(self) -> list[str]:
        """A line for each connection, request and datagram that a server got."""
        return (self.folder / "hits").read_text().splitlines()

    def enter(self, user: str = "root") -> tuple[str, ...]:
        """Goes before a command that is to run on the machine of this world.

        ``user`` may also be ``virtual``, without ids to give away, or ``subordinate``, with a range
        of them. The machine has its own resolver, and a device for interfaces that is open to all.
        """
        steps = [
            f"mount --bind {self.folder}/resolv.conf /etc/resolv.conf",
            f"mknod -m 666 {self.folder}/tun c 10 200",
            f"mount --bind {self.folder}/tun /dev/net/tun",
            f"rm {self.folder}/tun",
        ]
        become = "" if user == "root" else f"setpriv --reuid {UID} --regid {UID} --clear-groups "
        if user == "subordinate":
            steps += [f"mount --bind {self.folder}/{name} /etc/{name}" for name in _ACCOUNTS]
        steps.append(f'exec nsenter --net=/run/netns/{self.machine} {become}"$@"')
        script = " && ".join(steps)
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "world")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def open_world() -> Iterator[World]:
    """Make it all, and take it away again."""
    tag = f"{os.getpid() % 100000}"
    machine, internet = f"sbx-m-{tag}", f"sbx-i-{tag}"
    # Other runs of tests beside this one have worlds too.
    second, third = 200 + os.getpid() // 250 % 50, os.getpid() % 250
    outside, inside = f"10.{second}.{third}.1", f"10.{second}.{third}.2"
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
        _write_settings(folder)
        server = _serve(folder, internet)
        yield World(inside, machine, folder)
    finally:
        if server is not None:
            server.kill()
            server.wait()
        for name in (machine, internet):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", f"sbxo{tag}"], check=False, capture_output=True)
        shutil.rmtree(folder)


def _write_settings(folder: Path) -> None:
    (folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
    account = f"sbxworld:x:{UID}:{UID}::/nonexistent:/bin/sh\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + account)
    for name in ("subuid", "subgid"):
        (folder / name).write_text("sbxworld:300000:65536\n")


def _serve(folder: Path, internet: str) -> subprocess.Popen[bytes]:
    (folder / "hits").touch()
    script = str(Path(__file__).with_name("world_servers.py"))
    server = subprocess.Popen(
        ["ip", "netns", "exec", internet, sys.executable, "-P", script, str(folder)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
    )
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == b"ready\n", "the servers of the world did not start"
    return server
