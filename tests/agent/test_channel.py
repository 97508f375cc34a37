"""The channel: engines come and go, and none of them can harm the agent."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.agent.loop import VERSION
from tests.agent.conftest import Engine, FailureError, Sandbox, read_all
from tests.waiting import until


def test_hello_describes_an_agent_without_processes(sandbox: Sandbox) -> None:
    assert sandbox.connect(greet=False).call("hello") == {
        "version": VERSION,
        "processes": [],
        "watches": [],
        "loopback": False,
    }


def test_the_newest_engine_wins(sandbox: Sandbox) -> None:
    newer = sandbox.connect()

    assert wire.receive(sandbox.engine.sock) is None
    assert newer.call("resolve", path="x") == {"path": "/home/user/x"}


def test_a_new_engine_adopts_a_running_process(sandbox: Sandbox) -> None:
    body, fds = sandbox.engine.ask(
        "start", cmd="/bin/cat", tag="mine", envs={"A": "1"}, cwd="/tmp", stdin=True
    )
    wire.close_all(fds)
    sandbox.engine.close()

    newer = sandbox.connect(greet=False)
    (known,) = newer.call("hello")["processes"]
    _, (out, err, stdin) = newer.ask("adopt", pid=body["pid"])
    os.write(stdin, b"still here")
    os.close(stdin)
    newer.call("close_stdin", pid=body["pid"])

    assert known == {
        "pid": body["pid"],
        "tag": "mine",
        "cmd": "/bin/cat",
        "args": [],
        "envs": {"A": "1"},
        "cwd": "/tmp",
        "stdin": True,
        "pty": None,
        "status": None,
        "deadline": None,
    }
    assert (read_all(out), read_all(err)) == (b"still here", b"")
    assert newer.wait_exit(body["pid"]) == 0


def test_an_exit_is_repeated_to_each_engine_until_it_is_released(sandbox: Sandbox) -> None:
    body, fds = sandbox.engine.ask("start", cmd="/bin/sh", args=["-c", "exit 3"], stdin=False)
    wire.close_all(fds)
    pid = body["pid"]
    assert sandbox.engine.wait_exit(pid) == 3

    second = sandbox.connect(greet=False)
    (known,) = second.call("hello")["processes"]
    assert known["status"] == 3
    assert second.wait_exit(pid) == 3
    second.call("release", pid=pid)

    third = sandbox.connect(greet=False)
    assert third.call("hello")["processes"] == []
    third.call("resolve", path="x")
    assert third.events == []


def test_an_exit_without_any_engine_is_told_to_the_next_one(sandbox: Sandbox) -> None:
    body, fds = sandbox.engine.ask("start", cmd="/bin/sh", args=["-c", "read x; exit 4"])
    sandbox.engine.close()

    wire.close_all(fds)
    newer = sandbox.connect(greet=False)
    newer.call("hello")
    newer.call("close_stdin", pid=body["pid"])  # the engine's own end went with the first engine

    assert newer.wait_exit(body["pid"]) == 4


def test_no_exit_is_told_before_hello(sandbox: Sandbox) -> None:
    body, fds = sandbox.engine.ask("start", cmd="/bin/true", stdin=False)
    wire.close_all(fds)
    sandbox.engine.wait_exit(body["pid"])

    newer = sandbox.connect(greet=False)
    newer.call("resolve", path="x")

    assert newer.events == []


@pytest.mark.parametrize(
    "datagram", [b"no json", b"[]", b'{"memfd":12}', b"[" * 40000, b"x" * 60000, b"\xff\xfe"]
)
def test_an_engine_that_breaks_the_framing_loses_its_channel_only(
    sandbox: Sandbox, datagram: bytes
) -> None:
    sandbox.engine.sock.send(datagram)

    assert wire.receive(sandbox.engine.sock) is None
    assert sandbox.connect().call("resolve", path="x") == {"path": "/home/user/x"}


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "stat"},
        {"op": "stat", "path": 7},
        {"op": "stat", "path": "/", "user": ["x"]},
        {"op": "list_dir", "path": "/tmp", "depth": "many"},
        {"op": "start"},
        {"op": "start", "cmd": ["x"]},
        {"op": "start", "cmd": "x", "pty": "wide"},
        {"op": "signal", "pid": "x"},
        {"op": "sockets", "count": "x"},
        {"op": "listen", "host": 1, "port": 1},
        {"op": "watch_add", "watch": []},
        {"op": "configure", "envs": ["x"]},
    ],
)
def test_a_malformed_request_is_refused_and_the_agent_goes_on(
    engine: Engine, fields: dict[str, object]
) -> None:
    with pytest.raises(FailureError) as caught:
        engine.call(**fields)  # type: ignore[arg-type]

    assert caught.value.code in ("invalid_argument", "not_found")
    assert engine.call("resolve", path="") == {"path": "/home/user"}


def test_an_unknown_operation_is_unimplemented(engine: Engine) -> None:
    with pytest.raises(FailureError, match="unimplemented"):
        engine.call("dance")


def test_unasked_descriptors_are_closed(sandbox: Sandbox) -> None:
    reader, writer = os.pipe()

    sandbox.engine.call("resolve", path="x", fds=[writer])
    os.close(writer)

    assert read_all(reader) == b""


def test_an_engine_that_does_not_read_is_dropped(sandbox: Sandbox) -> None:
    slow = sandbox.connect()
    slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sock.setblocking(False)

    def is_dropped() -> bool:
        try:
            for _ in range(200):
                wire.send(slow.sock, {"id": 1, "op": "list_dir", "path": "/usr", "depth": 1})
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    until(is_dropped)
    assert sandbox.connect().call("resolve", path="x") == {"path": "/home/user/x"}


@pytest.mark.long
def test_a_slow_engine_gets_every_answer_and_descriptor_in_order(sandbox: Sandbox) -> None:
    count = 60
    for number in range(count):
        wire.send(sandbox.engine.sock, {"id": number, "op": "open", "path": "/etc/passwd"})
        if number % 2:
            wire.send(sandbox.engine.sock, {"id": -number, "op": "list_dir", "path": "/usr/bin"})

    opened: list[int] = []
    for _ in range(count + count // 2):
        body, fds = sandbox.engine.receive()
        for fd in fds:
            opened.append(body["id"])
            os.close(fd)

    assert opened == list(range(count))


def test_configure_sets_environment_and_marker_files(sandbox: Sandbox) -> None:
    envs = {"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": "isb1", "E2B_TEMPLATE_ID": "base", "X": "y"}
    sandbox.engine.call("configure", envs=envs, default_user="guest", default_cwd="/srv")

    markers = {path.name: path.read_text() for path in (sandbox.root / "run/e2b").iterdir()}
    assert markers == {
        ".E2B_SANDBOX": "true",
        ".E2B_SANDBOX_ID": "isb1",
        ".E2B_TEMPLATE_ID": "base",
    }
    assert sandbox.engine.shell("echo $USER $X $PWD").stdout == "guest y /srv\n"


@pytest.mark.parametrize("obstacle", ["link", "fifo", "file"])
def test_obstacles_in_the_way_of_marker_files_do_no_harm(sandbox: Sandbox, obstacle: str) -> None:
    precious = sandbox.root / "etc/passwd"
    shutil.rmtree(sandbox.root / "run/e2b")
    if obstacle != "file":
        (sandbox.root / "run/e2b").mkdir()
    before = precious.read_text()
    marker = sandbox.root / "run/e2b/.E2B_SANDBOX"
    if obstacle == "link":
        marker.symlink_to("/etc/passwd")
    elif obstacle == "fifo":
        os.mkfifo(marker)
    else:
        (sandbox.root / "run/e2b").write_text("")

    sandbox.engine.call("configure", envs={"E2B_SANDBOX": "true"}, default_user="user")

    assert precious.read_text() == before


@pytest.mark.parametrize("envs", [{"A=B": "x"}, {"": "x"}, {"A": "\0"}, {"A\0": "x"}])
def test_configure_refuses_what_cannot_be_a_variable(engine: Engine, envs: dict[str, str]) -> None:
    with pytest.raises(FailureError, match="invalid_argument"):
        engine.call("configure", envs=envs, default_user="user")
