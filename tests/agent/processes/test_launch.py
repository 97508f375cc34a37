"""Starting programs by a list of system calls in a child that borrows the agent's memory."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import resource
import signal
import time
from collections.abc import Iterator

import pytest

from sbx_jupyter.agent.processes import call_list, launch, quick_launch
from sbx_jupyter.agent.processes.call_list import CallList, TooLongError
from sbx_jupyter.agent.processes.launch import Launcher
from sbx_jupyter.agent.processes.program import Launch
from sbx_jupyter.agent.users import User

LOW = 64


def order(*argv: bytes, **environment: bytes) -> Launch:
    found = {b"PATH": b"/nowhere:/usr/bin:/bin"}
    found |= {name.encode(): value for name, value in environment.items()}
    user = User("user", os.getuid(), os.getgid(), "/", ())
    return Launch(list(argv), found, b"/", user, True, LOW, None)


def run(launcher: Launcher, asked: Launch) -> tuple[bytes, int]:
    """What the program writes to its two outputs, and its status."""
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    out, end = os.pipe2(os.O_CLOEXEC)
    pid = launcher.launch(asked, (null, end, end))
    os.close(end)
    os.close(null)
    written = b"".join(iter(lambda: os.read(out, 65536), b""))
    os.close(out)
    return written, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """A launcher that must not fork."""

    def refuse(*_: object, **__: object) -> int:
        raise AssertionError("it forked")

    monkeypatch.setattr(launch, "_fork", refuse)
    return Launcher()


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    yield
    while True:  # those whose exec failed are reaped by whoever waits for all
        try:
            assert os.waitpid(-1, 0)[0] > 0
        except ChildProcessError:
            return


def test_a_program_starts_without_a_fork(launcher: Launcher) -> None:
    written, status = run(launcher, order(b"sh", b"-c", b"echo $0 $A; pwd; exit 3", A=b"1 2"))
    assert (written, status) == (b"sh 1 2\n/\n", 3)


def test_no_moment_of_a_program_has_the_limit_of_the_agent(launcher: Launcher) -> None:
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert own[1] > LOW
    written, _ = run(launcher, order(b"sh", b"-c", b"ulimit -Sn; ulimit -Hn; ulimit -Hn 65 2>&1"))
    soft, hard, refused = written.splitlines()
    assert soft == hard == str(LOW).encode()
    assert b"limit" in refused
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == own


def test_a_program_has_a_group_default_signals_and_no_descriptor(launcher: Launcher) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        script = b"ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status;"
        script += b" ps -o sid=,pgid= -p $$; echo $$"
        lines = run(launcher, order(b"sh", b"-c", script))[0].split()
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(read_end)
        os.close(write_end)
    assert lines[:4] == [b"0", b"1", b"2", b"3"]  # the last is that of ls
    *_, blocked, _, ignored, session, group, pid = lines
    assert int(blocked, 16) == 0
    assert not int(ignored, 16) & 1 << signal.SIGTERM - 1
    assert (int(session), group) == (os.getsid(0), pid)


@pytest.mark.parametrize(
    ("asked", "status"),
    [((b"not-there",), 127), ((b"/etc/passwd",), 126), ((b"/tmp",), 126), ((b"",), 127)],
)
def test_what_cannot_run_is_left_to_a_fork(asked: tuple[bytes, ...], status: int) -> None:
    written, ended = run(Launcher(), order(*asked))
    assert ended == status
    assert written.startswith(b"sh: exec: ")


def test_a_large_environment_is_left_to_a_fork() -> None:
    large = {f"V{n}": b"x" * 100_000 for n in range(6)}
    written, _ = run(Launcher(), order(b"sh", b"-c", b"echo ${#V5}", **large))
    assert written == b"100000\n"


def test_a_child_that_is_stopped_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_list, "_LONGEST_WAIT", 0.05)
    calls = CallList()
    word = calls.store(bytes(4))
    calls.add("futex", word, 0, 0, 0)  # waits for ever
    started = time.monotonic()
    assert calls.run() is None
    assert time.monotonic() - started < 5
    assert calls.is_usable
    assert os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) == -signal.SIGKILL
    assert run(Launcher(), order(b"echo", b"on"))[0] == b"on\n"


def test_a_failed_call_ends_the_child_and_is_told() -> None:
    calls = CallList()
    calls.add("chdir", calls.store(b"/not/there\0"))
    assert calls.run() is None
    assert os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) == 126
    calls.clear()
    with pytest.raises(TooLongError):
        calls.store(bytes(10 << 20))


def test_memory_of_the_list_is_private_and_the_instructions_cannot_be_changed() -> None:
    calls = CallList()
    at = {
        name: call_list._address(memory)
        for name, memory in (("code", calls._code), ("area", calls._area))
    }
    with open("/proc/self/maps") as maps:
        rows = [line.split() for line in maps]
    found = {}
    for row in rows:
        first, last = (int(end, 16) for end in row[0].split("-"))
        found |= {name: row[1] for name, place in at.items() if first <= place < last}
    assert found == {"code": "r-xp", "area": "rw-p"}


def test_a_machine_without_instructions_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_list.platform, "machine", lambda: "riscv64")
    quick = quick_launch.QuickLauncher(())
    assert quick.start(order(b"true"), [b"/bin/true"], (0, 1, 2), False) is None


def test_the_limit_of_processes_is_an_error_of_the_start() -> None:
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        try:
            Launcher().launch(order(b"true"), (0, 1, 2))
        except BlockingIOError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user: root only")
def test_memory_that_a_child_of_another_user_borrowed_stays_closed() -> None:
    pid = os.fork()
    if pid == 0:  # for the memory of this process stays closed, too
        asked = order(b"sh", b"-c", b"id -u; cat /proc/self/maps > /dev/null && echo open")
        user = User("nobody", 65534, 65534, "/", ())
        written, _ = run(Launcher(), dataclasses.replace(asked, user=user, virtual=False))
        closed = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0  # PR_GET_DUMPABLE
        os._exit(0 if closed and written == b"65534\nopen\n" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
