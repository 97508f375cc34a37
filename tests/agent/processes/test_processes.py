"""Processes, terminals, sockets, counting and watching through the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

import pytest

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.confined.descendants import members
from tests.agent.conftest import (
    Engine,
    FailureError,
    Sandbox,
    read_all,
    read_until,
)
from tests.waiting import until, until_equal


def test_the_environment_is_fresh_and_later_settings_win(engine: Engine) -> None:
    engine.call("configure", envs={"A": "global", "B": "global"}, default_user="user")

    lines = engine.run("/usr/bin/env", envs={"B": "own"}).stdout.splitlines()

    assert sorted(lines) == [
        "A=global",
        "B=own",
        "HOME=/home/user",
        "LOGNAME=user",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "USER=user",
    ]


def test_a_process_has_the_ids_and_groups_of_its_user(engine: Engine) -> None:
    assert engine.run("id").stdout == (
        "uid=1000(user) gid=1000(user) groups=1000(user),2000(docs),2001(tools)\n"
    )
    assert engine.run("id", user="root").stdout == "uid=0(root) gid=0(root) groups=0(root)\n"


def test_a_process_inherits_no_descriptor_signal_mask_or_ignored_signal(engine: Engine) -> None:
    assert engine.shell("echo /proc/self/fd/*").stdout.split() == [
        f"/proc/self/fd/{number}" for number in (0, 1, 2, 3)
    ]  # the third is the shell's own, open on the directory
    status = engine.run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").stdout.split()
    blocked, ignored = (int(mask, 16) for mask in status[1::2])
    # 32 and 33 are the C library's own: posix_spawn has them ignored until the program needs them.
    assert (blocked, ignored & ~(0b11 << 31)) == (0, 0)


@pytest.mark.parametrize(
    ("cmd", "status"), [("missing", 127), ("/missing", 127), ("/etc/passwd", 126), ("/tmp", 126)]
)
def test_what_cannot_be_run_ends_as_in_a_shell(engine: Engine, cmd: str, status: int) -> None:
    finished = engine.run(cmd)

    assert finished.status == status
    assert cmd in finished.stderr


def test_the_search_path_is_that_of_the_process(sandbox: Sandbox) -> None:
    script = sandbox.root / "srv/tool"
    script.write_text("echo no first line: $1\n")
    script.chmod(0o755)

    assert sandbox.engine.run("tool", "x", envs={"PATH": "/srv:/bin"}).stdout == (
        "no first line: x\n"
    )


@pytest.mark.parametrize("cwd", ["/missing", "/etc/passwd", "/root", "~guest"])
def test_a_bad_working_directory_is_refused(engine: Engine, cwd: str) -> None:
    with pytest.raises(FailureError, match="invalid_argument"):
        engine.ask("start", cmd="/bin/true", cwd=cwd)


def test_a_home_that_is_missing_is_refused(engine: Engine) -> None:
    with pytest.raises(FailureError, match="cwd '/nonexistent' does not exist"):
        engine.ask("start", cmd="/bin/true", user="homeless")


def test_standard_input_is_a_pipe_or_nothing(engine: Engine) -> None:
    body, (out, err, stdin) = engine.ask("start", cmd="/bin/cat")
    os.write(stdin, b"x" * 1000)
    os.close(stdin)
    engine.call("close_stdin", pid=body["pid"])
    engine.call("close_stdin", pid=body["pid"])

    assert read_all(out) == b"x" * 1000
    assert read_all(err) == b""
    assert engine.run("/bin/cat").stdout == ""


def test_a_terminal_controls_its_process_and_has_a_size(engine: Engine) -> None:
    body, (master,) = engine.ask(
        "start", cmd="/bin/sh", args=["-c", "tty; stty size; cat"], pty=[77, 33]
    )

    assert os.get_blocking(master) is False
    read_until(master, b"33 77\r\n")
    os.write(master, b"ready\n")
    read_until(master, b"ready\r\nready\r\n")  # the terminal's echo, and what cat says
    os.write(master, b"\x03")
    assert engine.wait_exit(body["pid"]) == -signal.SIGINT
    assert read_all(master).startswith(b"^C")


def test_a_process_leads_its_own_group_which_can_be_signalled(engine: Engine) -> None:
    body, (out, err) = engine.ask(
        "start", cmd="/bin/sh", args=["-c", "sleep 99 & echo up; wait"], stdin=False
    )
    read_until(out, b"up")

    engine.call("signal", pid=body["pid"], signal=signal.SIGKILL, group=True)

    assert engine.wait_exit(body["pid"]) == -signal.SIGKILL
    assert (read_all(out), read_all(err)) == (b"", b"")
    with pytest.raises(FailureError, match="not_found"):
        engine.call("signal", pid=body["pid"], signal=signal.SIGTERM)
    for number in (0, 65, -1):
        with pytest.raises(FailureError):
            engine.call("signal", pid=body["pid"], signal=number)


def test_orphans_are_reaped(engine: Engine) -> None:
    engine.shell("for i in 1 2 3; do (sleep 0.05 &) ; done")

    until(lambda: engine.call("usage")["processes"] == 1)


def test_no_signal_from_inside_ends_the_agent(engine: Engine) -> None:
    engine.shell("for s in TERM INT HUP KILL STOP USR1 PIPE; do kill -$s 1; done", user="root")

    assert engine.call("resolve", path="x")


def running_below(agent: int) -> set[str]:
    """The states of the processes of a sandbox but the agent that can still do something.

    Neither what has ended can, nor what waits for a stopped child of ``vfork`` to run a program.
    """
    stats = map(procfs.read_stat, members(agent, kept=True))
    return {stat.state for stat in stats if stat is not None} - set("TZD")


def test_freezing_stops_everybody_and_leaves_stopped_ones_stopped(
    engine: Engine, sandbox: Sandbox
) -> None:
    script = "sleep 99 & kill -STOP $!; while :; do echo x; sleep 0.01; done"
    _, (out, _err) = engine.ask("start", cmd="/bin/sh", args=["-c", script], stdin=False)
    read_until(out, b"x")
    until(lambda: "T" in engine.shell("cut -d' ' -f3 /proc/[0-9]*/stat").stdout.split())

    assert engine.call("freeze", frozen=True)["processes"] >= 1
    until_equal(lambda: running_below(sandbox.pid), set[str]())
    with contextlib.suppress(BlockingIOError):
        while os.read(out, 65536):
            pass
    time.sleep(0.1)  # ten times as long as the loop sleeps
    with pytest.raises(BlockingIOError):
        os.read(out, 1)
    engine.call("freeze", frozen=False)

    read_until(out, b"x")
    assert "T" in engine.shell("cut -d' ' -f3 /proc/[0-9]*/stat").stdout.split()


def test_sockets_of_the_sandbox_reach_what_listens_inside(engine: Engine) -> None:
    body, (listening,) = engine.ask("listen", host="127.0.0.1", port=0)
    _, (plain, _other) = engine.ask("sockets", count=2, family=4)

    with socket.socket(fileno=listening) as listener, socket.socket(fileno=plain) as client:
        client.setblocking(True)
        client.connect(("127.0.0.1", body["port"]))
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"inside")
            assert client.recv(10) == b"inside"
        with pytest.raises(FailureError, match="already_exists"):
            engine.ask("listen", host="127.0.0.1", port=body["port"])
    os.close(_other)
    with pytest.raises(FailureError, match="invalid_argument"):
        engine.ask("listen", host="localhost", port=0)


def test_watching_arms_folders_and_finds_what_was_there(sandbox: Sandbox) -> None:
    (sandbox.root / "srv/a/b").mkdir(parents=True)
    (sandbox.root / "srv/out").symlink_to("/tmp")
    body, (fd,) = sandbox.engine.ask("watch", path="/srv", recursive=True)
    os.close(fd)
    (sandbox.root / "srv/new/x").mkdir(parents=True)
    (sandbox.root / "srv/new/x/f").touch()

    added = sandbox.engine.call("watch_add", watch=body["watch"], folder="new")

    assert sorted(body["wds"].values()) == [".", "a", "a/b"]
    assert sorted(added["wds"].values()) == ["new", "new/x"]
    assert added["found"] == ["new/x", "new/x/f"]
    for folder in ("../etc", "/etc"):
        with pytest.raises(FailureError, match="invalid_argument"):
            sandbox.engine.call("watch_add", watch=body["watch"], folder=folder)
    sandbox.engine.call("unwatch", watch=body["watch"])
    with pytest.raises(FailureError, match="not_found"):
        sandbox.engine.call("unwatch", watch=body["watch"])
