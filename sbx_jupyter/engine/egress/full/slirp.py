"""The far end of a sandbox's interface: one slirp4netns, which turns frames into sockets.

It runs outside of the sandbox with the rights of the engine's user, behind a system call filter
and, where that user is root, in an empty file system and without capabilities. It ends with the
first process of the sandbox where the kernel tells it (Linux 6.9), else when an engine notices.
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
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.engine.egress.full import link, tap_filter
from sbx_jupyter.errors import IsolationError
from sbx_jupyter.isolation.kernel import tap
from sbx_jupyter.isolation.zygote.cage_records import boot_id, identity, start_time_of

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.egress.full.link import Link

PROGRAM: Final = "slirp4netns"
MAX_CONNECTIONS: Final = 1000
"""Per sandbox; each may hold some hundred KiB of what was not read yet."""

_START_TIMEOUT: Final = 15.0


class Slirp:
    """One running slirp4netns."""

    def __init__(self, pid: int, pidfd: int, process: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._process = process
        loop = asyncio.get_running_loop()
        self._dead = loop.create_future()
        loop.add_reader(pidfd, self._on_dead)

    def filter(self, program: bytes) -> None:
        """Set what may pass. Raises ``OSError`` or ``UnavailableError``."""
        fd = tap_filter.take_tap(self.pid)
        try:
            tap_filter.attach(fd, program)
        finally:
            os.close(fd)

    async def wait_dead(self) -> None:
        """Return when it is gone."""
        await asyncio.shield(self._dead)

    async def stop(self) -> None:
        """End it, and with it every connection that it carries."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        await self.wait_dead()
        self.leave()

    def leave(self) -> None:
        """Let go of it and leave it running."""
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _on_dead(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if self._process is not None:
            self._process.poll()
        if not self._dead.done():
            self._dead.set_result(None)


async def start(way: Link, cage_pidfd: int) -> Slirp:
    """Start one for an interface that is down, and return when it has taken it.

    Raises ``IsolationError`` when it does not start.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise IsolationError(f"{PROGRAM} is not installed")
    ready, said = os.pipe2(os.O_CLOEXEC)
    try:
        command = [
            program,
            f"--ready-fd={said}",
            f"--exit-fd={cage_pidfd}",
            f"--mtu={link.MTU}",
            "--disable-host-loopback",
            "--enable-seccomp",
            # As an ordinary user it would have to be root of a namespace for that.
            *(["--enable-sandbox"] if os.geteuid() == 0 else []),
            f"--userns-path=/proc/self/fd/{way.users}",
            "--netns-type=path",
            f"/proc/self/fd/{way.network}",
            tap.NAME,
        ]
        fds = (said, cage_pidfd, way.users, way.network)
        process = await asyncio.to_thread(_launch, command, fds)
    except OSError as error:
        os.close(ready)
        raise IsolationError(f"{PROGRAM} cannot be started: {error}") from error
    finally:
        os.close(said)
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
    """Which sandbox has which slirp4netns, for the engine after this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, sandbox_id: str, slirp: Slirp, rules: str) -> None:
        """Remember one, and the rules that it was started with."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{sandbox_id}"
        draft.write_text(json.dumps({**identity(slirp.pid), "rules": rules}))
        draft.rename(self._folder / sandbox_id)

    def remove(self, sandbox_id: str) -> None:
        """Forget one."""
        (self._folder / sandbox_id).unlink(missing_ok=True)

    def adopt(self, sandbox_id: str) -> tuple[Slirp, str] | None:
        """A remembered one and its rules, if it still runs."""
        try:
            state: dict[str, Any] = json.loads((self._folder / sandbox_id).read_text())
        except (OSError, ValueError):
            return None
        if state["boot_id"] != boot_id():
            return None
        try:
            pidfd = os.pidfd_open(state["pid"])
        except OSError:
            return None
        if start_time_of(state["pid"]) != state["start_time"]:
            os.close(pidfd)
            return None
        return Slirp(state["pid"], pidfd, None), state["rules"]

    def names(self) -> list[str]:
        """The sandboxes that have one."""
        if not self._folder.is_dir():
            return []
        return [path.name for path in self._folder.iterdir() if not path.name.startswith(".")]
