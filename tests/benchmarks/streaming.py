"""1 GiB of a command's output through a Start stream, beside the same command's bare pipe."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.benchmarks.harness import report_rate, timed

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

SIZE = 1 << 30
ROUNDS = 3
COMMAND = ["head", "-c", str(SIZE), "/dev/zero"]


def run(engine: EngineClient) -> None:
    bare: list[float] = []
    ours: list[float] = []
    with engine.sandbox() as sandbox:
        for _ in range(ROUNDS):
            bare.append(timed(read_pipe))
            ours.append(timed(lambda: read_stream(engine, sandbox)))
    baseline = report_rate("bare pipe, 64 KiB reads", SIZE, bare)
    report_rate("process.Process/Start, stdout", SIZE, ours, baseline)


def read_pipe() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(65536):
            pass


def read_stream(engine: EngineClient, sandbox: dict[str, str]) -> None:
    """Discard the output as a client would that only counts it; base64 is 4/3 of the bytes."""
    message = {"process": {"cmd": COMMAND[0], "args": COMMAND[1:]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        size = sum(len(payload) for _, payload in events)
    if size < SIZE * 4 / 3:
        raise RuntimeError(f"{size} bytes of envelopes")
