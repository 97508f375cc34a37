"""Starts, adopts and ends slirp4netns, which connects a sandbox's interface to host sockets.

Each runs outside of the sandbox as the user that makes sandboxes, with a system call filter and, if
that user is root, in an empty file system and without capabilities. It ends with the first process
of the sandbox on Linux 6.9 and later, else when an engine notices that the sandbox ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent.procfs import identity, open_identified
from sbx_jupyter.errors import IsolationError
from sbx_jupyter.isolation.full_network import tap_filter
from sbx_jupyter.isolation.full_network.link import MTU
from sbx_jupyter.isolation.kernel import tap
from sbx_jupyter.isolation.launching import launch

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.full_network.link import Link

PROGRAM: Final = "slirp4netns"
MAX_CONNECTIONS: Final = 1000
"""Per sandbox; each may buffer some hundred KiB."""

_START_TIMEOUT: Final = 15.0


_left_running: Final[list[subprocess.Popen[bytes]]] = []
"""For the next engine. Python warns of a process that nobody waits for and nobody knows."""


class Slirp:
    """One running slirp4netns."""

    def __init__(self, pid: int, pidfd: int, process: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._process = process
        loop = asyncio.get_running_loop()
        self._dead = loop.create_future()
        loop.add_reader(pidfd, self._on_dead)

    @property
    def pidfd(self) -> int:
        """Its pidfd, which stays this object's; -1 once it was detached."""
        return self._pidfd

    def filter(self, program: bytes) -> None:
        """Attach a packet filter. Raises ``OSError`` or ``UnavailableError``."""
        fd = tap_filter.take_tap(self.pid)
        try:
            tap_filter.attach(fd, program)
        finally:
            os.close(fd)

    async def wait_dead(self) -> None:
        """Return when the process has ended, or was detached."""
        await asyncio.shield(self._dead)

    async def stop(self) -> None:
        """Kill the process, which closes all connections; does nothing once it was detached."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        await self.wait_dead()
        self.detach()

    def detach(self) -> None:
        """Close the pidfd and leave the process running."""
        if self._process is not None and self._process.poll() is None:
            _left_running.append(self._process)
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self._dead.done():
            self._dead.set_result(None)

    def _on_dead(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if self._process is not None:
            self._process.poll()
        if not self._dead.done():
            self._dead.set_result(None)


async def start_slirp(link: Link, cage_pidfd: int) -> Slirp:
    """Start slirp4netns for an interface that is down, and return when it serves the interface.

    Raises ``IsolationError`` when it does not start.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise IsolationError(f"{PROGRAM} is not installed")
    ready, ready_write = os.pipe2(os.O_CLOEXEC)
    try:
        command = [
            program,
            f"--ready-fd={ready_write}",
            f"--exit-fd={cage_pidfd}",
            f"--mtu={MTU}",
            "--disable-host-loopback",
            "--enable-seccomp",
            # An ordinary user would need a user namespace of its own for that.
            *(["--enable-sandbox"] if os.geteuid() == 0 else []),
            f"--userns-path=/proc/self/fd/{link.users}",
            "--netns-type=path",
            f"/proc/self/fd/{link.network}",
            tap.NAME,
        ]
        fds = (ready_write, cage_pidfd, link.users, link.network)
        process = await launch(partial(_launch, command, fds))
    except OSError as error:
        os.close(ready)
        raise IsolationError(f"{PROGRAM} cannot be started: {error}") from error
    finally:
        os.close(ready_write)
    slirp = Slirp(process.pid, os.pidfd_open(process.pid), process)
    try:
        if not await _is_ready(ready):
            raise IsolationError(f"{PROGRAM} could not take the interface of the sandbox")
    except BaseException:
        await slirp.stop()
        raise
    return slirp


def _launch(command: list[str], fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=fds,
        cwd="/",
        env={},
        start_new_session=True,
    )
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (MAX_CONNECTIONS, MAX_CONNECTIONS))
    return process


async def _is_ready(pipe: int) -> bool:
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pipe, lambda: answered.done() or answered.set_result(None))
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            await answered
        return os.read(pipe, 1) == b"1"
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


class SlirpRecords:
    """Files that say which sandbox has which slirp4netns, for the next engine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, sandbox_id: str, slirp: Slirp, rules: str) -> None:
        """Record a process and a digest of its rules."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{sandbox_id}"
        draft.write_text(json.dumps({**identity(slirp.pid), "rules": rules}))
        draft.rename(self._folder / sandbox_id)

    def remove(self, sandbox_id: str) -> None:
        """Remove the record of a sandbox."""
        (self._folder / sandbox_id).unlink(missing_ok=True)

    def adopt(self, sandbox_id: str) -> tuple[Slirp, str] | None:
        """The recorded process and the digest of its rules, if it still runs."""
        try:
            state: dict[str, Any] = json.loads((self._folder / sandbox_id).read_text())
        except (OSError, ValueError):
            return None
        pidfd = open_identified(state)
        return None if pidfd is None else (Slirp(state["pid"], pidfd, None), state["rules"])

    def names(self) -> list[str]:
        """The ids of the sandboxes that have a record."""
        if not self._folder.is_dir():
            return []
        return [path.name for path in self._folder.iterdir() if not path.name.startswith(".")]
