"""The content of a file is replaced by the agent: an engine that ends meanwhile tears nothing."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.agent.files import files
from sbx_jupyter.agent.loop import Agent
from sbx_jupyter.agent.outbox import Outbox
from tests.agent import rootfs
from tests.agent.conftest import Engine, Sandbox
from tests.waiting import until

LONG = files._LONG_COPY + 1
SIZES = [5, LONG]
"""What the agent copies itself, and what a worker of it copies."""


def write(engine: Engine, path: str, content: bytes) -> None:
    """Make a file."""
    _, (fd,) = engine.ask("create", path=path, user="root")
    with open(fd, "wb") as file:
        file.write(content)


def draft(engine: Engine, path: str, content: bytes) -> int:
    """Content that is not in the file yet."""
    body, (fd,) = engine.ask("create", path=path, user="root", draft=True)
    assert body["is_draft"] is True
    os.write(fd, content)
    return fd


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.parametrize("size", SIZES)
def test_the_file_stays_the_same_file(sandbox: Sandbox, size: int) -> None:
    engine = sandbox.engine
    write(engine, "/root/file", b"earlier" * 100)
    path, other = sandbox.root / "root/file", sandbox.root / "root/link"
    path.chmod(0o600)
    os.link(path, other)
    fd = draft(engine, "/root/file", b"x" * size)
    assert path.read_bytes() == b"earlier" * 100

    body = engine.call(
        "create", path="/root/file", user="root", metadata={"a": "b"}, size=size, fds=[fd]
    )
    os.close(fd)

    assert body == {"path": "/root/file", "name": "file", "metadata": {"a": "b"}}
    assert other.read_bytes() == b"x" * size
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", SIZES)
def test_what_an_engine_asked_for_is_finished_without_it(sandbox: Sandbox, size: int) -> None:
    engine = sandbox.engine
    write(engine, "/root/file", b"earlier" * 100)
    path = sandbox.root / "root/file"
    fd = draft(engine, "/root/file", b"x" * size)
    (agent,) = rootfs.agents_of(sandbox.pid)
    os.kill(agent, signal.SIGSTOP)
    until(lambda: state_of(agent) == "T")
    try:
        request = {"id": 99, "op": "create", "path": "/root/file", "user": "root", "size": size}
        wire.send(engine.sock, request, [fd])
        engine.close()
        os.close(fd)
        assert path.read_bytes() == b"earlier" * 100
    finally:
        os.kill(agent, signal.SIGCONT)

    until(lambda: path.read_bytes() == b"x" * size)
    assert sandbox.connect().call("stat", path="/root/file")["entry"]["size"] == size


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[Agent, socket.socket]]:
    """An agent in this process, and the engine's end of its channel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, ours:
        made = Agent(listener, {"sandbox_id": "test", "users": "virtual"})
        made._channel = Outbox(theirs)
        yield made, ours
        theirs.close()


@pytest.mark.parametrize("lack", ["processes", "room in the queue"])
def test_a_sandbox_without_room_for_a_worker_still_gets_the_content(
    agent: tuple[Agent, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    def refuse(*_: Any) -> int:
        raise BlockingIOError

    made, engine = agent
    monkeypatch.setattr(os, "fork", refuse)
    if lack == "room in the queue":
        monkeypatch.setattr("sbx_jupyter.agent.workers.MAX_QUEUED", 0)
    path, content = tmp_path / "file", b"x" * LONG
    path.write_bytes(b"earlier")
    given = os.open(tmp_path / "draft", os.O_RDWR | os.O_CREAT)
    os.write(given, content)

    made._answer({"id": 7, "op": "create", "path": str(path), "size": LONG}, [given])

    answer = wire.receive(engine)
    assert answer is not None
    assert answer[0]["ok"]["path"] == str(path)
    assert path.read_bytes() == content
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(given)
