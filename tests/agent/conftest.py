"""The real agent in namespaces of its own, and a plain blocking engine side to talk to it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.agent import wire
from tests.agent import rootfs
from tests.waiting import PATIENCE


class FailureError(Exception):
    """The agent answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.errno: int | None = error.get("errno")


@dataclass
class Engine:
    """One channel to an agent."""

    sock: socket.socket
    events: list[dict[str, Any]] = field(default_factory=list)
    last_id: int = 0

    def call(self, op: str, *, fds: list[int] | None = None, **fields: Any) -> dict[str, Any]:
        """Ask for something that comes without descriptors."""
        body, received = self.ask(op, fds=fds, **fields)
        assert received == []
        return body

    def ask(
        self, op: str, *, fds: list[int] | None = None, **fields: Any
    ) -> tuple[dict[str, Any], list[int]]:
        self.last_id += 1
        wire.send(self.sock, {"id": self.last_id, "op": op, **fields}, fds or [])
        while True:
            body, received = self.receive()
            if "event" in body:
                self.events.append(body)
                continue
            assert body["id"] == self.last_id
            if "error" in body:
                assert received == []
                raise FailureError(body["error"])
            return body["ok"], received

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        message = wire.receive(self.sock)
        assert message is not None, "the agent closed the channel"
        return message

    def wait_exit(self, pid: int) -> int:
        """The status that the agent reports for a process."""
        while True:
            for event in self.events:
                if event["event"] == "exit" and event["pid"] == pid:
                    return event["status"]
            body, _ = self.receive()
            self.events.append(body)

    def run(self, cmd: str, *args: str, **fields: Any) -> Finished:
        """Start a process without stdin and wait for its end and all that it writes."""
        body, (out, err) = self.ask("start", cmd=cmd, args=list(args), stdin=False, **fields)
        stdout, stderr = read_all(out), read_all(err)
        status = self.wait_exit(body["pid"])
        self.call("release", pid=body["pid"])
        return Finished(stdout.decode(), stderr.decode(), status)

    def shell(self, script: str, **fields: Any) -> Finished:
        return self.run("/bin/sh", "-c", script, **fields)

    def close(self) -> None:
        self.sock.close()


@dataclass
class Finished:
    stdout: str
    stderr: str
    status: int


@dataclass
class Sandbox:
    """One agent: ``root`` is its root directory as seen from outside."""

    root: Path
    address: str
    pid: int
    engines: list[Engine] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """The first engine."""
        return self.engines[0]

    def connect(self, *, greet: bool = True) -> Engine:
        """A further engine."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(PATIENCE)
        sock.connect(self.address)
        engine = Engine(sock)
        self.engines.append(engine)
        if greet:
            engine.call("hello")
        return engine


def read_all(fd: int) -> bytes:
    """Everything until the other side closes; a pty ends with EIO."""
    content = b""
    with contextlib.suppress(OSError):
        while chunk := read_some(fd):
            content += chunk
    os.close(fd)
    return content


def read_some(fd: int) -> bytes:
    ready, _, _ = select.select([fd], [], [], PATIENCE)
    assert ready, "nothing to read"
    return os.read(fd, 65536)


def read_until(fd: int, wanted: bytes) -> bytes:
    content = b""
    while wanted not in content:
        content += read_some(fd)
    return content


@contextlib.contextmanager
def run_sandbox(**setup: Any) -> Iterator[Sandbox]:
    # A short path: the address of a Unix socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="agent-", dir="/tmp"))
    root = folder / "root"
    rootfs.build(root)
    address = str(folder / "agent.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        setup = {"sandbox_id": "test", "users": "real", "landlock": False, **setup}
        pid = rootfs.launch(root, listener, setup)
    sandbox = Sandbox(root, address, pid)
    try:
        sandbox.connect().call("configure", envs={}, default_user="user", default_cwd="")
        yield sandbox
    finally:
        for engine in sandbox.engines:
            engine.close()
        rootfs.kill(pid)
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give the agent namespaces and users of its own")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with run_sandbox() as running:
        yield running


@pytest.fixture
def engine(sandbox: Sandbox) -> Engine:
    return sandbox.engine
