"""Real sandboxes for the tests; standard library only, so that any interpreter can run it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sbx_jupyter.isolation.channel import Channel
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sbx_jupyter.isolation.cage import Cage

LIMITS = Limits(memory_mb=256, cpu_count=1, processes=96, disk_mb=0, open_files=1024)

LOCAL_PACKAGE = """
mkdir -p ~/tree/DEBIAN ~/tree/usr/bin && cd &&
printf '%s\\n' 'Package: sbx-tried' 'Version: 1' 'Architecture: all' 'Maintainer: m <m@m>' \\
  'Description: d' > tree/DEBIAN/control &&
printf '#!/bin/sh\\necho hello\\n' > tree/usr/bin/sbx-says-hello && chmod 755 tree/usr/bin/* &&
dpkg-deb --build --root-owner-group tree tried.deb > /dev/null &&
sudo apt-get install -y ./tried.deb > /dev/null && sbx-says-hello
"""
"""Builds a package of Debian and installs it; then a program of the package says hello."""


@dataclass
class Ran:
    """What a command inside wrote, and how it ended."""

    out: str
    err: str
    status: int


class Inside:
    """One live sandbox and the channel of its agent."""

    def __init__(self, cage: Cage, path: Path) -> None:
        self.cage = cage
        self._path = path
        self._channel: Channel | None = None
        self._exits: dict[int, asyncio.Future[int]] = {}

    async def connect(self) -> None:
        """Connect to the agent as a new engine does."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(self._path))
        self._channel = Channel(sock, on_event=self._on_event, on_close=lambda: None)
        await self.ask("hello")

    async def ask(self, op: str, **fields: Any) -> Any:
        """One request to the agent."""
        assert self._channel is not None
        return await self._channel.call(op, **fields)

    async def run(self, command: str, *, user: str = "user", timeout: float = 60) -> Ran:
        """Run a login shell command and collect its output."""
        async with asyncio.timeout(timeout):
            reply = await self.ask(
                "start", cmd="/bin/bash", args=["-l", "-c", command], envs={}, cwd="/", user=user,
                tag=None, stdin=False, pty=None,
            )  # fmt: skip
            out, err = await asyncio.gather(*(_read_all(fd) for fd in reply.fds[:2]))
            pid = reply.body["pid"]
            status = await self._exit_of(pid)
            await self.ask("release", pid=pid)
        return Ran(out, err, status)

    async def start(self, command: str, *, user: str = "user") -> int:
        """Start a command and leave it alone."""
        reply = await self.ask(
            "start", cmd="/bin/bash", args=["-c", command], envs={}, cwd="/", user=user, tag=None,
            stdin=False, pty=None,
        )  # fmt: skip
        for fd in reply.fds:
            os.close(fd)
        return reply.body["pid"]

    def disconnect(self) -> None:
        """Drop the channel, as an engine that ends."""
        if self._channel is not None:
            self._channel.close()

    def _exit_of(self, pid: int) -> asyncio.Future[int]:
        if pid not in self._exits:
            self._exits[pid] = asyncio.get_running_loop().create_future()
        return self._exits[pid]

    def _on_event(self, event: dict[str, Any], fds: list[int]) -> None:
        if event.get("event") == "exit":
            future = self._exit_of(event["pid"])
            if not future.done():
                future.set_result(event["status"])


async def _read_all(fd: int) -> str:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        transport.close()


def spec_for(fence_dir: Path, sandbox_id: str, **changes: Any) -> FenceSpec:
    """A stock sandbox of small limits."""
    spec = FenceSpec(
        sandbox_id=sandbox_id,
        layers=(),
        base="host",
        writable=fence_dir / "sandboxes" / sandbox_id,
        limits=LIMITS,
    )
    return replace(spec, **changes)


async def create(fence: Fence, data_dir: Path, sandbox_id: str, **changes: Any) -> Inside:
    """Make a sandbox and connect to its agent."""
    path = data_dir / "run" / f"{sandbox_id}.sock"
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(4)
        cage = await fence.create(spec_for(data_dir, sandbox_id, **changes), listener)
    inside = Inside(cage, path)
    await inside.connect()
    return inside


@contextlib.asynccontextmanager
async def sandbox(
    fence: Fence, data_dir: Path, sandbox_id: str, **changes: Any
) -> AsyncIterator[Inside]:
    """A sandbox that is killed and removed at the end."""
    inside = await create(fence, data_dir, sandbox_id, **changes)
    try:
        yield inside
    finally:
        inside.disconnect()
        await inside.cage.kill()
        inside.cage.close()
        await fence.tree_operations.remove(inside.cage.writable)
