"""Podman with a store of its own, as root or as an ordinary user with subordinate ids."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from tests.engine.templates.test_users import give_range
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UID: Final = 64_861
BUILD_SECONDS: Final = 1200
"""For packages of Debian and of Python, on a busy machine."""

START_SECONDS: Final = 120.0

LIMITS: Final = ("--ulimit=nofile=16384:16384", "--ulimit=nproc=16384:16384")
"""Podman asks for more open files and processes than some machines allow even root."""


@dataclass(frozen=True, slots=True)
class Podman:
    """Podman's command; nothing of it is left when ``podman()`` ends."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def __call__(self, *arguments: str, timeout: float = START_SECONDS) -> str:
        """What a command prints to its standard output. It must succeed."""
        ran = self.tried(*arguments, timeout=timeout)
        assert ran.returncode == 0, f"{arguments}\n{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
        return ran.stdout

    def tried(
        self, *arguments: str, timeout: float = START_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *arguments],
            env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Container:
    """A running container with a Jupyter server at port 8888, whose token is ``TOKEN``."""

    podman: Podman
    name: str

    def __call__(self, *command: str, timeout: float = START_SECONDS) -> str:
        """What a command in the container prints to its standard output. It must succeed."""
        return self.podman("exec", self.name, *command, timeout=timeout)

    @property
    def log(self) -> str:
        ran = self.podman.tried("logs", self.name)
        return ran.stdout + ran.stderr

    @property
    def url(self) -> str:
        """Where the Jupyter server is, for a browser of this machine."""
        return f"http://{self.podman('port', self.name, '8888').split()[-1]}"


@contextlib.contextmanager
def podman_of(user: str, folder: Path) -> Iterator[Podman]:
    """Podman of ``root``, or of an ordinary user (``rootless``), with its store in ``folder``."""
    folder.chmod(0o755)
    places = {name: folder / name for name in ("store", "run", "tmp", "home")}
    for place in places.values():
        place.mkdir()
        if user == "rootless":
            os.chown(place, UID, UID)
    runtime = Path(tempfile.mkdtemp(prefix="sbx-podman-", dir="/tmp"))  # sockets' names are short
    # crun takes no mixture of both versions of control groups.
    setup = "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified"
    become: Sequence[str] = ()
    if user == "rootless":
        os.chown(runtime, UID, UID)
        # As Debian has it: networks of containers need it, and some machines keep it for root.
        tun = folder / "tun"
        os.mknod(tun, 0o20666, os.makedev(10, 200))
        tun.chmod(0o666)
        setup = f"{setup}\n{give_range(folder, UID)}\nmount --bind {tun} /dev/net/tun"
        become = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    with _mounts(setup, folder / "ready") as pid:
        podman = Podman(
            (
                *("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--wd=/", "--", *become),
                *("podman", "--cgroup-manager=cgroupfs", "--events-backend=file"),
                *("--root", str(places["store"]), "--runroot", str(places["run"])),
                *("--tmpdir", str(places["tmp"])),
            ),
            {
                "PATH": os.environ["PATH"],
                "HOME": str(places["home"]),
                "XDG_RUNTIME_DIR": str(runtime),
                "TMPDIR": str(places["tmp"]),
            },
        )
        try:
            yield podman
        finally:
            podman.tried("system", "reset", "--force")
            shutil.rmtree(runtime)


@contextlib.contextmanager
def _mounts(setup: str, ready: Path) -> Iterator[int]:
    """A mount namespace that all commands share, as the mounts of containers are in it; a pid."""
    script = f'{setup}\ntouch "$0"\nexec sleep infinity'
    holder = subprocess.Popen(["unshare", "-m", "sh", "-ec", script, str(ready)])
    try:
        until(ready.exists, START_SECONDS)
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


@contextlib.contextmanager
def running(podman: Podman, *arguments: str) -> Iterator[Container]:
    """A container that ``podman run`` starts with these arguments, and whose server answers."""
    name = podman(
        *("run", "--detach", "--network=slirp4netns", "--publish=127.0.0.1::8888"),
        *LIMITS,
        *arguments,
    ).strip()
    container = Container(podman, name)
    try:
        until(lambda: _answers(container), START_SECONDS, container.log, step=0.2)
        yield container
    finally:
        podman("rm", "--force", "--volumes", "--time=20", name)


def _answers(container: Container) -> bool:
    state = container.podman("inspect", "--format={{.State.Status}}", container.name).strip()
    assert state == "running", container.log
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{container.url}/api", timeout=5, trust_env=False).is_success
    return False
