"""Starts the zygote and speaks to it, from the engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sbx_jupyter
from sbx_jupyter.agent.procfs import boot_id, identity, start_time_of
from sbx_jupyter.errors import (
    AbortedError,
    InvalidArgumentError,
    IsolationError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.isolation.channel import Channel, Reply
from sbx_jupyter.isolation.ids.local_ids import of_user_database
from sbx_jupyter.isolation.kernel import users
from sbx_jupyter.isolation.launching import in_thread, launch
from sbx_jupyter.isolation.zygote.cage_records import IDENTITY, read_record
from sbx_jupyter.isolation.zygote.namespaces import REFUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.ids.blocks import IdRange
    from sbx_jupyter.isolation.root.stock_plan import StockPlan

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
"""No zygote is started again when so many in a row were killed."""

_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from sbx_jupyter.isolation.zygote.zygote import main; main(int(sys.argv[2]), sys.argv[3])"
)
_SETUP_TIMEOUT: Final = 30.0
_FORMER_END_TIMEOUT: Final = 10.0
_END_TIMEOUT: Final = 5.0
_BUILD_TIMEOUT: Final = 600.0
"""For each of the first two requests: an interpreter starts, then every directory of Python is
searched, which takes seconds, or minutes from a slow disk."""


class ZygoteProcess:
    """One running zygote."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self._process = process
        self._channel = channel
        self._pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_death)

    @property
    def pid(self) -> int:
        """Process id of the zygote."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        # Its death may not have been noticed yet where the channel is read.
        return not self._channel.closed and self._process.poll() is None

    async def call(self, op: str, *, fds: Sequence[int] = (), **fields: Any) -> Reply:
        """Ask the zygote; raises as ``Channel.call``."""
        return await self._channel.call(op, fds=fds, **fields)

    def _on_death(self) -> None:
        """Let the waiting calls fail at once: processes of its own may keep its socket open."""
        self._forget()
        self._channel.drain()

    def _forget(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def stop(self) -> bool:
        """Close the control socket, at which the zygote exits; the sandboxes keep running.

        Says whether it ended on its own: after 5 seconds it is killed.
        """
        self._forget()
        self._channel.close()
        return await in_thread(_wait_or_kill, self._process)


def _wait_or_kill(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a process that was told to end; says whether it did. Goes on without its caller."""
    try:
        process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


async def start_zygote(
    data_dir: Path,
    kind: str,
    plan: StockPlan,
    id_base: int,
    *,
    agent: str,
    stock: Path | None = None,
    own_ids: IdRange | None = None,
    landlock_abi: int = 0,
) -> tuple[ZygoteProcess, Path]:
    """Execute a zygote and prepare it, again when it is killed meanwhile.

    Gives it and the stock layer's path. ``stock`` is what an earlier zygote of this engine built of
    the same plan: that is used again, since the search for what to hide takes most of a start. With
    ``own_ids`` it gives each sandbox a block of these host ids, else all have those from
    ``id_base`` on. ``landlock_abi`` is the version of Landlock that confines sandboxes without
    namespaces. Raises ``IsolationError``.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _start_once(
                data_dir, kind, plan, id_base, agent, stock, own_ids, landlock_abi
            )
        except UnavailableError as error:
            _log.warning("%s; starting another one", error.message)
    raise IsolationError(f"{_ATTEMPTS} zygotes were killed while they started")


async def _start_once(
    data_dir: Path,
    kind: str,
    plan: StockPlan,
    id_base: int,
    agent: str,
    stock: Path | None,
    own_ids: IdRange | None,
    landlock_abi: int,
) -> tuple[ZygoteProcess, Path]:
    """Raises ``IsolationError``, and ``UnavailableError`` when the zygote was killed."""
    process, zygote = await _execute_recorded(data_dir, agent)
    try:
        await _enter(zygote, kind, own_ids)
        reply = await zygote.call(
            "init",
            users=kind,
            id_base=id_base,
            **await _host_ids(own_ids),
            data_dir=str(data_dir),
            landlock_abi=landlock_abi,
            plan=json.loads(json.dumps(plan.to_json())),
            stock=stock and str(stock.relative_to(data_dir)),
            timeout=_BUILD_TIMEOUT,
        )
    except (SbxError, OSError, subprocess.SubprocessError) as error:
        if await zygote.stop() and process.returncode == -signal.SIGKILL:
            raise UnavailableError("the zygote was killed while it started") from error
        raise IsolationError(f"the zygote could not be prepared: {error}") from error
    except asyncio.CancelledError:
        await zygote.stop()
        raise
    return zygote, Path(reply.body["stock"])


async def _execute_recorded(
    data_dir: Path, agent: str
) -> tuple[subprocess.Popen[bytes], ZygoteProcess]:
    """Execute a zygote that ``end_former_zygote`` finds later. Raises ``OSError``."""
    process, channel = await _execute(agent)
    try:
        zygote = ZygoteProcess(process, channel)
    except OSError:
        channel.close()
        await in_thread(_wait_or_kill, process)
        raise
    try:
        record_identity(_record(data_dir), process.pid)
    except OSError:
        await zygote.stop()
        raise
    return process, zygote


async def _enter(zygote: ZygoteProcess, kind: str, own_ids: IdRange | None) -> None:
    """Let it take the namespaces of its kind of users, which it may need us to map.

    Raises ``SbxError``, ``OSError``, ``SubprocessError``.
    """
    await zygote.call(
        "enter",
        users=kind,
        uid=os.getuid(),
        gid=os.getgid(),
        own_ids=own_ids is not None,
        timeout=_BUILD_TIMEOUT,
    )
    if kind == users.SUBORDINATE:
        await in_thread(users.map_subordinate, zygote.pid)


async def _execute(agent: str) -> tuple[subprocess.Popen[bytes], Channel]:
    """Execute a zygote that waits for its first request. Raises ``OSError``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    package = str(Path(sbx_jupyter.__file__).parent.parent)

    def start() -> subprocess.Popen[bytes]:
        with theirs:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, package,
                 str(theirs.fileno()), agent],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )  # fmt: skip

    try:
        process = await launch(start)
    except BaseException:
        ours.close()
        raise
    return process, Channel(ours, on_event=_ignore, on_close=lambda: None)


async def _host_ids(own_ids: IdRange | None) -> dict[str, Any]:
    if own_ids is None:
        return {}
    known = await in_thread(of_user_database)
    local = [number for number in known if own_ids.first <= number <= own_ids.last]
    return {"host_ids": [own_ids.first, own_ids.last], "local_ids": local}


def end_former_zygote(data_dir: Path) -> None:
    """End the zygote that a dead engine left, and wait; blocking.

    Usually it has ended by itself. A slow one may still be making a sandbox, which no engine would
    remove afterwards. Raises ``IsolationError`` when it does not end.
    """
    end_former(_record(data_dir))
    before = data_dir / "zygote.json"  # of an earlier version
    with contextlib.suppress(FileNotFoundError):
        if before.lstat().st_uid == os.getuid():
            end_former(before)
            before.unlink()


def record_identity(record: Path, pid: int) -> None:
    """Write which process ``end_former`` is to end. Raises ``OSError``."""
    record.parent.mkdir(mode=0o700, exist_ok=True)
    for left in record.parent.glob(f"{record.name}.*"):  # by one that was killed here
        left.unlink(missing_ok=True)
    draft = record.with_name(f"{record.name}.{pid}")
    draft.write_text(json.dumps(identity(pid)))
    draft.rename(record)


def end_former(record: Path) -> None:
    """End the process of a record, if it lives, and wait; blocking.

    Raises ``IsolationError`` when it does not end.
    """
    try:
        former = read_record(record, IDENTITY)
    except (OSError, ValueError):
        return  # there was none, or the machine crashed meanwhile
    if former["boot_id"] != boot_id():
        return
    try:
        pidfd = os.pidfd_open(former["pid"])
    except ProcessLookupError:
        return
    try:
        if start_time_of(former["pid"]) == former["start_time"]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            ending = select.poll()
            ending.register(pidfd, select.POLLIN)
            if not ending.poll(_FORMER_END_TIMEOUT * 1000):
                raise IsolationError(f"process {former['pid']} of a former engine does not end")
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def _record(data_dir: Path) -> Path:
    return data_dir / "helper" / "zygote.json"


async def check_outcome(pipe: int) -> None:
    """Wait until a sandbox is set up.

    Raises ``InvalidArgumentError`` for what it was made of, ``AbortedError`` when it was killed
    meanwhile, else ``IsolationError``.
    """
    said = await _read_outcome(pipe)
    if said.startswith(REFUSED):
        raise InvalidArgumentError(said.removeprefix(REFUSED))
    if not said:
        raise AbortedError("the sandbox was killed while it was made")
    if said != "ok":
        raise IsolationError(f"the sandbox could not be set up: {said}")


async def _read_outcome(pipe: int) -> str:
    """Read the result of a sandbox's set-up: ``ok``, an error text, or ``""`` when it died."""
    loop = asyncio.get_running_loop()
    os.set_blocking(pipe, False)
    said = b""
    try:
        async with asyncio.timeout(_SETUP_TIMEOUT):
            while True:
                ready: asyncio.Future[None] = loop.create_future()
                loop.add_reader(pipe, _wake, ready)
                try:
                    await ready
                finally:
                    loop.remove_reader(pipe)
                chunk = os.read(pipe, 4096)
                said += chunk
                if not chunk or said == b"ok":
                    return said.decode(errors="replace")
    except TimeoutError:
        return "it did not finish in time"
    finally:
        os.close(pipe)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _ignore(event: dict[str, Any], fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
