"""e2b for Python, synchronously: commands and terminals."""

from __future__ import annotations

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    TimeoutException,
)

from tests.waiting import until


def test_output_and_exit_code_come_back(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2")

    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)


def test_a_failing_command_raises_with_all_it_said(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("echo said; exit 7")

    assert (caught.value.stdout, caught.value.exit_code) == ("said\n", 7)


def test_a_missing_program_exits_with_127(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("no-such-program")

    assert caught.value.exit_code == 127


def test_callbacks_get_output_while_it_is_made(sandbox):
    heard = []

    def hear(text):
        heard.append(text)
        sandbox.files.write("heard", text)

    # The command goes on when its first line was heard, and not before.
    sandbox.commands.run("echo 1; until [ -e heard ]; do sleep 0.05; done; echo 2", on_stdout=hear)

    assert "".join(heard) == "1\n2\n"


def test_characters_split_between_pieces_arrive_whole(sandbox):
    result = sandbox.commands.run(r"printf '\xe2\x82'; sleep 0.2; printf '\xac'")

    assert result.stdout == "€"


def test_ten_million_characters_arrive(sandbox):
    result = sandbox.commands.run("head -c 10000000 /dev/zero | tr '\\0' x")

    assert len(result.stdout) == 10_000_000


def test_a_command_is_killed_when_its_time_is_over(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 3000", timeout=1)

    # The client's own clock may run out before the engine's answer is there, so wait for it.
    waiting = "for _ in {1..200}; do pgrep -f 'sleep 300[0]' || exit 0; read -t 0.1; done; exit 1"
    assert sandbox.commands.run(waiting, stdin=True).exit_code == 0


def test_a_background_command_reads_what_is_sent(sandbox):
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)

    handle.send_stdin("one\n")
    handle.send_stdin("two\n")
    handle.close_stdin()

    assert handle.wait().stdout == "one\ntwo\nend\n"


def test_without_stdin_a_command_sees_its_end(sandbox):
    assert sandbox.commands.run("cat").stdout == ""


def test_a_background_command_is_listed_connected_and_killed(sandbox):
    handle = sandbox.commands.run("sleep 1000", background=True, envs={"A": "b"}, timeout=0)

    listed = {process.pid: process for process in sandbox.commands.list()}
    assert listed[handle.pid].args == ["-l", "-c", "sleep 1000"]
    assert listed[handle.pid].envs == {"A": "b"}
    other = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as caught:
        other.wait()
    assert caught.value.exit_code == -1
    assert caught.value.error == "signal: killed"
    assert sandbox.commands.kill(handle.pid) is False


def test_connecting_to_no_process_is_not_found(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(999_999)


def test_a_disconnected_command_runs_on(sandbox):
    script = "until [ -e go ]; do sleep 0.05; done; touch done"
    handle = sandbox.commands.run(script, background=True)

    handle.disconnect()
    sandbox.files.write("go", "")

    until(lambda: sandbox.files.exists("done"))


def test_users_and_directories_are_obeyed(sandbox):
    assert sandbox.commands.run("whoami; pwd").stdout == "user\n/home/user\n"
    assert sandbox.commands.run("whoami", user="root").stdout == "root\n"
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    assert sandbox.commands.run("sudo -n whoami").stdout == "root\n"
    with pytest.raises(AuthenticationException):
        sandbox.commands.run("true", user="nobody-here")
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run("true", cwd="/missing")


def test_a_terminal_is_sized_typed_into_and_killed(sandbox):
    output = bytearray()
    terminal = sandbox.pty.create(PtySize(rows=11, cols=77), timeout=20)
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo mark=$((40+2)) $TERM\n")
    for _, _, chunk in terminal:
        output += chunk or b""
        if b"mark=42" in output:
            break
    assert b"11 77" in output
    assert b"xterm-256color" in output

    sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit 3\n")

    with pytest.raises(CommandExitException) as caught:
        terminal.wait(on_pty=output.extend)
    assert caught.value.exit_code == 3
    assert b"30 100" in output


def test_a_killed_terminal_is_gone(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=10, cols=10))

    assert sandbox.pty.kill(terminal.pid) is True

    with pytest.raises(CommandExitException):
        terminal.wait()
    assert sandbox.pty.kill(terminal.pid) is False


def test_git_helpers_work(sandbox):
    sandbox.commands.run("git init -q repo")

    assert "repo" in [entry.name for entry in sandbox.files.list("/home/user")]
    assert sandbox.git.status("repo").is_clean
