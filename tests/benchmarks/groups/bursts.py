"""Many sandboxes created at once, beside as many bare starts."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.containers import BWRAP
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import ratio_to
from tests.benchmarks.harness import first_output, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

_AT_ONCE: Final = 64
"""Requests of the client at once, for ours."""
_SETTLE: Final = 0.5
"""Seconds in which the pool fills up again."""


@contextlib.contextmanager
def _bursts(engine: EngineClient, count: int) -> Iterator[Contestants]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:

        def use(_: int) -> dict[str, Any]:
            sandbox = engine.create()
            first_output(engine, sandbox)
            return sandbox

        def burst() -> float:
            time.sleep(_SETTLE)
            made: list[dict[str, Any]] = []
            taken = timed(lambda: made.extend(threads.map(use, range(count))))
            list(threads.map(engine.kill, made))
            return taken

        contestants: Contestants = {OURS: burst}
        if shutil.which(BWRAP[0]) is not None:
            contestants["bwrap"] = lambda: timed(lambda: _bare_starts(count))
        yield contestants


def _bare_starts(count: int) -> None:
    """As fast as the machine can: ``xargs`` with two starts per processor."""
    width = 2 * (os.cpu_count() or 1)
    command = f"seq {count} | xargs -P {width} -I{{}} {shlex.join(BWRAP)}"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)


_LONGER: Final = (
    "each of ours is a create and a program with its output, over HTTP, with a record on disk,"
    " where the peer's is one process; the client's threads share the same processors"
)

ROWS: Final = tuple(
    Row(
        f"Create {count} sandboxes at once, to the last one's output",
        5,
        lambda engine, count=count: _bursts(engine, count),
        (ratio_to("bwrap", 1.5),),
        _LONGER,
        warm_up=1,
    )
    for count in (100, 200)
)
