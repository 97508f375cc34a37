"""Long lists are read by two processes, and by one where there is no second."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import os, sys
from sbx_jupyter.agent.files.parallel_listing import read_in_parallel
parent = os.getpid()
items = range(10_000)
whole = [(f"line {item}", "remark\\n" if item % 3000 == 0 else "") for item in items]
def read(half):
    return [(f"line {item}", "remark\\n" if item % 3000 == 0 else "") for item in half]
def open_halves():
    paths = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sum("half" in path for path in paths)
"""


def run(body: str) -> None:
    """Run a program of its own: it forks."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_both_halves_come_together_in_order() -> None:
    run("""
readers = os.pipe()
def noting(half):
    os.write(readers[1], f"{os.getpid() == parent} ".encode())
    return read(half)
assert read_in_parallel(items, noting) == whole
assert sorted(os.read(readers[0], 99).split()) == [b"False", b"True"]
""")


def test_a_half_that_dies_is_read_again() -> None:
    run("""
def dying(half):
    if os.getpid() != parent:
        os.kill(os.getpid(), 9)
    return read(half)
assert read_in_parallel(items, dying) == whole
""")


@pytest.mark.parametrize("call", ["fork", "memfd_create"])
def test_without_a_second_process_one_reads_all(call: str) -> None:
    run(f"""
def refuse(*args):
    raise OSError(11, "no")
os.{call} = refuse
assert read_in_parallel(items, read) == whole
assert open_halves() == 0
""")


def test_a_failure_of_ours_leaves_no_descriptor_and_no_process() -> None:
    run("""
def failing(half):
    if os.getpid() == parent:
        raise ValueError
    return read(half)
try:
    read_in_parallel(items, failing)
except ValueError:
    pass
assert open_halves() == 0
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    sys.exit(0)
sys.exit("a process is left")
""")
