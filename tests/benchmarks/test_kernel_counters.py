"""The kernel's counters, on a program whose system calls are known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.benchmarks.kernel_counters import (
    CallCounter,
    Calls,
    InstructionCounter,
    NoCountersError,
    is_asleep,
)
from tests.waiting import until

_PROGRAM = """
import os, sys, threading
for line in sys.stdin:
    asked = line.strip()
    if asked == "thread":
        thread = threading.Thread(target=os.getppid)
        thread.start()
        thread.join()
    elif asked == "child":
        if not os.fork():
            os.getppid()
            os.execv("/bin/sh", ["sh", "-c", "exec echo not counted >/dev/null"])
        os.wait()
    elif asked.isdigit():
        for _ in range(int(asked)):
            os.getppid()
    os.write(1, b"done\\n")
"""


class Program:
    """Does what it is asked, and says when that is done."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _PROGRAM]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self.do("0")

    def do(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"
        # The answer is here before the call that wrote it has ended.
        until(lambda: is_asleep(self.pid))

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.end()


@pytest.fixture
def counter(program: Program) -> Iterator[CallCounter]:
    try:
        counter = CallCounter({"program": [program.pid]})
    except NoCountersError as error:
        pytest.skip(str(error))
    yield counter
    counter.close()


def _calls(counter: CallCounter, program: Program, what: str) -> Calls:
    counter.take()
    program.do(what)
    return counter.take()["program"]


def test_each_call_is_counted_by_its_name(counter: CallCounter, program: Program) -> None:
    none, many = _calls(counter, program, "0"), _calls(counter, program, "1000")

    assert none.by_name["getppid"] == 0
    assert many.by_name["getppid"] == 1000
    assert (many.by_name - none.by_name).total() == 1000


def test_bytes_are_those_that_calls_moved(counter: CallCounter, program: Program) -> None:
    assert _calls(counter, program, "12").bytes_moved == len("12\n") + len("done\n")


def test_new_threads_count(counter: CallCounter, program: Program) -> None:
    assert _calls(counter, program, "thread").by_name["getppid"] == 1


def test_children_count_until_they_run_a_program(counter: CallCounter, program: Program) -> None:
    calls = _calls(counter, program, "child").by_name

    assert calls["getppid"] == 1
    assert calls["execve"] == 0


def test_more_calls_than_the_buffer_holds_are_an_error(
    counter: CallCounter, program: Program
) -> None:
    program.do("100000")

    with pytest.raises(BufferError, match="more system calls"):
        counter.take()


def test_instructions_grow_with_the_work(program: Program) -> None:
    try:
        counter = InstructionCounter({"program": [program.pid]})
    except NoCountersError as error:
        pytest.skip(str(error))
    readings = [counter.read()["program"]]
    for what in ("1000", "100000"):
        program.do(what)
        readings.append(counter.read()["program"])
    counter.close()

    few, many = readings[1] - readings[0], readings[2] - readings[1]
    assert 0 < few * 20 < many
