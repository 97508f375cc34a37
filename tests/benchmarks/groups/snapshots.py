"""Snapshots and forks of a sandbox with 1 GB of files, beside a copy of these files."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.contests import MEGABYTES, OURS, Contestants, Row
from tests.benchmarks.goals import at_most, ratio_to
from tests.benchmarks.harness import first_output, run_script, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

FILES: Final = 1000
FILE_SIZE: Final = 1_000_000
"""Not smaller: 10,000 files took 11 to 25 s to remove on a disk mounted with ``discard``."""
FORKS: Final = 20
COPY: Final = "cp and sync"
_SETTLE: Final = 0.3
"""Seconds that the ticker needs on either side of a snapshot to see all of it."""

_TICKER: Final = """
import time
last = time.monotonic()
longest = 0.0
while True:
    time.sleep(0.002)
    now = time.monotonic()
    if now - last > longest:
        longest = now - last
        print(f"longest {longest:.4f}", flush=True)
    last = now
"""
_FILL: Final = """
import os, sys
files, size = map(int, sys.argv[1:])
block = os.urandom(size)
for number in range(files):
    if number % 100 == 0:
        os.makedirs(f"d/{number // 100}")
    with open(f"d/{number // 100}/{number}", "wb") as file:
        file.write(block)
"""
ARGUMENTS: Final = ["-c", _FILL, str(FILES), str(FILE_SIZE)]
"""Of Python, which makes the files in its working directory."""


def fill(engine: EngineClient, sandbox: dict[str, Any]) -> None:
    """Make the files in a sandbox."""
    run_script(engine, sandbox, shlex.join(["python3", *ARGUMENTS]))


_FILLED: Final[dict[EngineClient, dict[str, Any]]] = {}


def _filled(engine: EngineClient) -> dict[str, Any]:
    """The sandbox with the files, which the rows of this group share."""
    if engine not in _FILLED:
        sandbox = engine.create()
        fill(engine, sandbox)
        _FILLED[engine] = sandbox
    return _FILLED[engine]


@contextlib.contextmanager
def _copies() -> Iterator[functools.partial[float]]:
    """Copies as many files of the host as a sandbox has, and waits until they are on the disk."""
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder:
        source, target = Path(folder, "d"), Path(folder, "copy")
        subprocess.run([sys.executable, *ARGUMENTS], cwd=folder, check=True)

        def copy() -> float:
            started = time.perf_counter()
            subprocess.run(["cp", "-a", source, target], check=True)
            subprocess.run(["sync", "--file-system", target], check=True)
            taken = time.perf_counter() - started
            shutil.rmtree(target)
            return taken

        yield functools.partial(copy)


@contextlib.contextmanager
def _snapshots(engine: EngineClient) -> Iterator[Contestants]:
    with _copies() as copy:
        yield {OURS: snapshots_of(engine), COPY: copy}


def snapshots_of(engine: EngineClient) -> Callable[[], float]:
    """Takes a snapshot of the sandbox with the files, and removes it after the time is taken."""
    sandbox = _filled(engine)

    def take() -> float:
        taken, snapshot_id = take_snapshot(engine, sandbox)
        remove_snapshot(engine, snapshot_id)
        return taken

    return take


def take_snapshot(engine: EngineClient, sandbox: dict[str, Any]) -> tuple[float, str]:
    """The seconds that a snapshot takes, and its id."""
    started = time.perf_counter()
    made = engine.platform("POST", f"/sandboxes/{sandbox['sandboxID']}/snapshots", {})
    return time.perf_counter() - started, made["snapshotID"]


def remove_snapshot(engine: EngineClient, snapshot_id: str) -> None:
    engine.platform("DELETE", f"/templates/{snapshot_id.replace(':', '%3A')}")


@contextlib.contextmanager
def _stops(engine: EngineClient) -> Iterator[Contestants]:
    """How long a program in the sandbox does not run while a snapshot is taken."""
    sandbox = _filled(engine)
    yield {OURS: lambda: _watched_snapshot(engine, sandbox)}


def _watched_snapshot(engine: EngineClient, sandbox: dict[str, Any]) -> float:
    message = {"process": {"cmd": "python3", "args": ["-c", _TICKER]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        pid = json.loads(next(events)[1])["event"]["start"]["pid"]
        time.sleep(_SETTLE)
        _, made = take_snapshot(engine, sandbox)
        time.sleep(_SETTLE)
        kill = {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}
        engine.unary(sandbox, "process.Process/SendSignal", kill)
        output = b"".join(_stdout(payload) for _, payload in events)
    remove_snapshot(engine, made)
    found = re.findall(rb"longest ([0-9.]+)", output)
    if not found:
        raise RuntimeError("the ticker said nothing")
    return float(found[-1])


def _stdout(payload: bytes) -> bytes:
    event = json.loads(payload).get("event", {})
    return base64.b64decode(event.get("data", {}).get("stdout", ""))


@contextlib.contextmanager
def _creates(engine: EngineClient) -> Iterator[Contestants]:
    _, snapshot_id = take_snapshot(engine, _filled(engine))

    def create() -> float:
        started = time.perf_counter()
        made = engine.create(templateID=snapshot_id)
        first_output(engine, made)
        taken = time.perf_counter() - started
        engine.kill(made)
        return taken

    yield {OURS: create}
    remove_snapshot(engine, snapshot_id)


@contextlib.contextmanager
def _forks(engine: EngineClient, count: int) -> Iterator[Contestants]:
    with contextlib.ExitStack() as stack:
        sandbox = _filled(engine)

        def fork() -> float:
            made: list[dict[str, Any]] = []
            taken = timed(lambda: made.extend(fork_sandbox(engine, sandbox, count)))
            for each in made:
                engine.kill(each)
            return taken

        yield {OURS: fork, **({COPY: stack.enter_context(_copies())} if count == 1 else {})}


def fork_sandbox(engine: EngineClient, sandbox: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Make ``count`` copies of a sandbox, with its files."""
    path = f"/sandboxes/{sandbox['sandboxID']}/fork"
    made = engine.platform("POST", path, {"count": count, "timeout": 600})
    return [each["sandbox"] for each in made]


@contextlib.contextmanager
def _disk(engine: EngineClient) -> Iterator[Contestants]:
    """What the copies take of the disk, as its free space tells."""
    sandbox = _filled(engine)

    def taken() -> float:
        before = _free_bytes(engine)
        made = fork_sandbox(engine, sandbox, FORKS)
        after = _free_bytes(engine)
        for each in made:
            engine.kill(each)
        return before - after

    yield {OURS: taken}


def _free_bytes(engine: EngineClient) -> int:
    return engine.platform("GET", "/engine/disk?maxAge=0")["freeBytes"]


_COPIED: Final = (
    "a disk without reflinks makes the copy byte by byte; a data directory on btrfs"
    " (`jupyter sbx storage create`) shares the bytes"
)

ROWS: Final = (
    Row(
        f"Take a snapshot of 1 GB in {FILES:,} files",
        5,
        _snapshots,
        (ratio_to(COPY, 0.81),),
        _COPIED,
        warm_up=1,
    ),
    Row(
        "Of this, the sandbox stands still",
        4,
        _stops,
        (at_most(0.05, "50 ms"),),
        _COPIED,
        warm_up=1,
    ),
    Row("Fork it once", 4, lambda engine: _forks(engine, 1), (ratio_to(COPY, 1.0),), warm_up=1),
    Row(
        f"Fork it {FORKS} times at once",
        2,
        lambda engine: _forks(engine, FORKS),
        warm_up=0,
    ),
    Row(f"Disk space that {FORKS} forks take", 1, _disk, unit=MEGABYTES, warm_up=0),
    Row("Create a sandbox from the snapshot, to first output", 10, _creates, warm_up=1),
)
