"""The engine dies while its zygote makes a sandbox; the zygote is slower than the next engine."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.scenarios import act_create, check_create
from tests.faults.witnesses import Witnesses
from tests.faults.world import World
from tests.waiting import until

_PIDFD_GETFD = 438


@contextmanager
def creating(world: World) -> Iterator[str]:
    """The engine stands before its request to the zygote; then it goes on, until it is killed."""
    world.arm("create.prepared", "pause")
    before = set(os.listdir(world.engine.data_dir / "run"))
    acting = threading.Thread(target=act_create, args=(world, {}))
    acting.start()
    world.wait_standing()
    (sandbox_id,) = set(os.listdir(world.engine.data_dir / "run")) - before
    try:
        yield sandbox_id
    finally:
        world.engine.kill()
        acting.join()
        world.client.close()


def first_processes(zygote: int) -> set[str]:
    """The children that are the first of a pid namespace: those of sandboxes, not of other work."""
    found = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    return {pid for pid in found if len(ids_in_namespaces(pid)) > 1}


def ids_in_namespaces(pid: str) -> list[str]:
    """The ids of a process, outermost first; none of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))


def test_a_sandbox_that_was_cloned_and_not_recorded_is_gone(world: World, witnesses: Witnesses):
    zygote, is_helped = world.zygote(), world.engine.is_separate
    with creating(world) as sandbox_id:
        known = first_processes(zygote)
        # Where it writes the record first, it now waits for a reader.
        os.mkfifo(world.engine.data_dir / "cages" / f".{sandbox_id}")
        world.disarm()
        until(lambda: first_processes(zygote) - known)
    # A helper outlives its engine, and ends the zygote at once.
    assert is_helped or len(first_processes(zygote) - known) == 1

    world.start()

    assert not Path(f"/proc/{zygote}").exists()
    check_create(world, {}, "create.prepared")


def test_a_request_that_outlives_its_engine_makes_no_sandbox(world: World, witnesses: Witnesses):
    zygote = world.zygote()
    os.kill(zygote, signal.SIGSTOP)
    with creating(world):
        world.disarm()
        until(lambda: has_request(zygote))

    world.start()

    assert not Path(f"/proc/{zygote}").exists()
    check_create(world, {}, "create.prepared")


def has_request(zygote: int) -> bool:
    """Whether something waits to be read on the zygote's control socket."""
    number = int(Path(f"/proc/{zygote}/cmdline").read_bytes().split(b"\0")[-3])
    pidfd = os.pidfd_open(zygote)
    control = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, number, 0)
    try:
        assert control >= 0, os.strerror(ctypes.get_errno())
        waiting = fcntl.ioctl(control, termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(waiting, sys.byteorder) > 0
    finally:
        os.close(pidfd)
        if control >= 0:
            os.close(control)
