"""The blocking face: scripts, threads, running loops and forks."""

from __future__ import annotations

import os
import threading

import pytest

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.errors import NotFoundError, UnavailableError


def test_a_script_needs_no_event_loop(blocking_sandbox):
    blocking_sandbox.files.write("a", "b")

    assert blocking_sandbox.files.read("a") == "b"
    assert blocking_sandbox.commands.run("cat a").stdout == "b"
    assert blocking_sandbox.isolation["tier"]
    assert blocking_sandbox.metrics().mem_total > 0
    with pytest.raises(NotFoundError):
        blocking_sandbox.files.read("missing")


async def test_it_works_inside_a_running_loop(blocking_sandbox):
    assert blocking_sandbox.commands.run("echo hi").stdout == "hi\n"


def test_streams_and_watches_are_plain_iterators(blocking_sandbox):
    blocking_sandbox.files.write("big", b"x" * 1_000_000)
    with blocking_sandbox.files.read("big", "stream") as stream:
        assert sum(len(chunk) for chunk in stream) == 1_000_000

    with blocking_sandbox.files.watch("") as watch:
        blocking_sandbox.files.write("new", "")
        assert next(iter(watch)).name == "new"


def test_foreground_callbacks_run_on_the_calling_thread(blocking_sandbox):
    heard = []

    result = blocking_sandbox.commands.run(
        "echo 1; echo 2", on_stdout=lambda text: heard.append((text, threading.get_ident()))
    )

    assert result.stdout == "".join(text for text, _ in heard) == "1\n2\n"
    assert {thread for _, thread in heard} == {threading.get_ident()}


def test_background_callbacks_may_call_the_sandbox(blocking_sandbox):
    seen = []

    handle = blocking_sandbox.commands.run(
        "read x; echo $x",
        background=True,
        stdin=True,
        on_stdout=lambda text: seen.append(blocking_sandbox.files.exists("/home/user")),
    )
    handle.send_stdin("go\n")

    assert handle.wait().stdout == "go\n"
    assert seen == [True]


def test_a_terminal_is_an_iterator(blocking_sandbox):
    terminal = blocking_sandbox.pty.create()
    terminal.send("echo mark=$((40+2)); exit\n")

    output = b"".join(piece.chunk for piece in terminal)

    assert b"mark=42" in output
    assert terminal.next_sequence == len(output)


def test_a_forked_child_gets_connections_of_its_own(blocking_sandbox):
    handle = blocking_sandbox.commands.run("sleep 1000", background=True, timeout=None)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            right = blocking_sandbox.commands.run("echo child").stdout == "child\n"
            try:
                handle.kill()
            except UnavailableError:
                status = 0 if right else 2
        finally:
            os._exit(status)

    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert blocking_sandbox.commands.run("echo parent").stdout == "parent\n"
    handle.kill()


def test_a_call_from_the_portals_own_thread_is_refused_and_not_stuck(blocking_sandbox):
    async def call_back():
        return blocking_sandbox.files.exists("/")

    with pytest.raises(RuntimeError, match="own thread"):
        Portal.current().call(call_back())


def test_what_starts_after_the_end_is_cancelled():
    async def work() -> None: ...

    portal = Portal()
    portal.close()

    assert portal.start(work()).cancelled()
