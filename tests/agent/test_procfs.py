"""The parser of ``/proc/<pid>/stat``: programs choose their names, and processes vanish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.agent import procfs
from sbx_jupyter.agent.procfs import read_stat
from sbx_jupyter.protocol.process_stat import PAGE_SIZE, ProcessStat, parse_stat

REST = b"S 7 42 43 34816 42 4194304 100 0 0 0 11 22 33 44 20 0 5 0 987654 1000000 250 1844"
EXPECTED = ProcessStat(
    pid=42,
    state="S",
    parent=7,
    group=42,
    session=43,
    foreground_group=42,
    flags=4194304,
    own_ticks=33,
    child_ticks=77,
    threads=5,
    start_time=987654,
    resident_bytes=250 * PAGE_SIZE,
)


@given(name=st.binary(max_size=64))
def test_any_name_of_a_program_leaves_the_fields_as_they_are(name: bytes) -> None:
    assert parse_stat(b"42 (" + name + b") " + REST) == EXPECTED


@pytest.mark.parametrize("name", [b"", b"a b", b"(", b")", b") R 1 1 (", b"x\ny", b"\xff\xfe"])
def test_names_that_imitate_the_format_are_not_parsed(name: bytes) -> None:
    assert parse_stat(b"42 (" + name + b") " + REST + b"\n") == EXPECTED


@given(text=st.binary(max_size=200))
def test_anything_else_is_refused_without_an_error(text: bytes) -> None:
    assert parse_stat(text.replace(b")", b"")) is None


@given(fields=st.lists(st.binary(max_size=8), max_size=30))
def test_fields_that_are_no_numbers_never_raise(fields: list[bytes]) -> None:
    found = parse_stat(b"1 (x) " + b" ".join(fields))

    assert found is None or isinstance(found, ProcessStat)


def test_a_line_that_was_cut_off_is_refused() -> None:
    assert parse_stat(b"42 (cat) " + b" ".join(REST.split()[:21])) is None


def test_this_process_is_read_as_the_system_calls_say() -> None:
    found = read_stat(os.getpid())

    assert found is not None
    assert (found.pid, found.parent, found.session) == (os.getpid(), os.getppid(), os.getsid(0))
    assert found.resident_bytes > 0
    assert read_stat(os.getpid(), thread=os.getpid()) is not None


def test_a_running_program_with_a_hostile_name_is_read(tmp_path: Path) -> None:
    program = tmp_path / ") R 1 (\n"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()  # it has executed

        found = read_stat(child.pid)

        child.kill()
    assert found is not None
    assert found.parent == os.getpid()


def test_a_zombie_is_read_and_has_no_start_time() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        found = read_stat(child)
        assert found is not None
        assert found.state == "Z"
        assert procfs.start_time_of(child) is None
    finally:
        os.waitpid(child, 0)


def test_a_process_that_was_waited_for_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert read_stat(child.pid) is None
    assert procfs.start_time_of(child.pid) is None


def test_a_process_that_vanishes_while_it_is_read_is_gone() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    fd = os.open(f"/proc/{child}/stat", os.O_RDONLY)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        with pytest.raises(ProcessLookupError):  # what read_stat then turns into None
            os.read(fd, 10)
    finally:
        for opened in (fd, read, write):
            os.close(opened)


def test_an_identity_tells_a_process_from_others() -> None:
    own = procfs.identity(os.getpid())

    assert own["start_time"] is not None
    assert own["start_time"] * procfs.TICK_NS < time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert own["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
