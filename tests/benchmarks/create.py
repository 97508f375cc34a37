"""Time from create to the first output of a command, compared with a start of bubblewrap."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from tests.benchmarks.harness import report, timed

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

ROUNDS = 50
PAUSE = 0.1  # lets the pool of ready sandboxes refill, as between two clicks of a user


def run(engine: EngineClient) -> None:
    bubblewrap = shutil.which("bwrap")
    command = [str(bubblewrap), "--unshare-all", "--ro-bind", "/", "/", "/bin/true"]
    ours: list[float] = []
    created: list[float] = []
    theirs: list[float] = []
    for warm_up in range(-3, ROUNDS):
        started = time.perf_counter()
        sandbox = engine.create()
        after_create = time.perf_counter()
        first_output(engine, sandbox)
        after_output = time.perf_counter()
        engine.kill(sandbox)
        time.sleep(PAUSE)
        bare = timed(lambda: subprocess.run(command, check=True)) if bubblewrap else 0
        if warm_up >= 0:
            ours.append(after_output - started)
            created.append(after_create - started)
            theirs.append(bare)
    if bubblewrap:
        report("bwrap --unshare-all --ro-bind / / /bin/true", theirs)
    report("create over HTTP", created, theirs if bubblewrap else None)
    report("create to first output over HTTP", ours, theirs if bubblewrap else None)


def first_output(engine: EngineClient, sandbox: dict[str, str]) -> None:
    message = {"process": {"cmd": "/bin/echo", "args": ["hi"]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        for _, payload in events:
            if b'"stdout"' in payload:
                return
    raise RuntimeError("no output")
