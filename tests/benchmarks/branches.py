"""Time and memory of 20 branches: forks of a sandbox with 1 GB of files, and of one process.

Forks of a sandbox have its files, and no variables. ``os.fork`` inside one context shares the
variables copy-on-write, and all branches have the same files.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.benchmarks.harness import report, running_engine
from tests.benchmarks.snapshot import fill

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

BRANCHES = 20
MAKE = """
data = bytearray(10 ** 9)
for place in range(0, 10 ** 9, 4096):
    data[place] = 1
"""
BRANCH = """
import json, os, time
def private():
    with open("/proc/self/smaps_rollup") as file:
        rows = dict(line.split(":") for line in file.read().splitlines()[1:])
    return sum(int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024
began = time.perf_counter()
pipes = []
for number in range(%d):
    reader, writer = os.pipe()
    if os.fork() == 0:
        total = sum(data[number :: 1 << 20])
        os.write(writer, json.dumps([total, private()]).encode())
        os._exit(0)
    os.close(writer)
    pipes.append(reader)
answers = [json.loads(os.read(reader, 1000)) for reader in pipes]
for reader in pipes:
    os.close(reader)
    os.wait()
print(json.dumps([time.perf_counter() - began, max(each[1] for each in answers)]))
"""


def run(engine: EngineClient) -> None:
    _fork_files(engine)
    with running_engine("--SbxEngine.default_memory_mb=2048") as larger:
        _fork_variables(larger)


def _fork_files(engine: EngineClient) -> None:
    with engine.sandbox() as sandbox:
        fill(engine, sandbox)
        before = engine.platform("GET", "/engine/disk?maxAge=0")
        path = f"/sandboxes/{sandbox['sandboxID']}/fork"
        started = time.perf_counter()
        forks = engine.platform("POST", path, {"count": BRANCHES, "timeout": 600})
        seconds = time.perf_counter() - started
        after = engine.platform("GET", "/engine/disk?maxAge=0")
        report(f"{BRANCHES} forks of a sandbox with 1 GB of files", [seconds])
        taken = (before["freeBytes"] - after["freeBytes"]) / 1e6
        print(f"  they take {taken:.0f} MB of the disk", flush=True)
        for fork in forks:
            engine.kill(fork["sandbox"])


def _fork_variables(engine: EngineClient) -> None:
    given = engine.environment()
    config = ConnectionConfig(
        api_url=given["E2B_API_URL"],
        sandbox_url=given["E2B_SANDBOX_URL"],
        api_key=given["E2B_API_KEY"],
    )
    box = Sandbox.create("code-interpreter-v1", config=config)
    try:
        made = box.run_code(MAKE)
        assert made.error is None, made.error
        before = box.metrics().mem_used
        ran = box.run_code(BRANCH % BRANCHES)
        assert ran.error is None, ran.error
        seconds, private = json.loads("".join(ran.logs.stdout))
        report(f"{BRANCHES} os.fork branches of a context with 1 GB", [seconds])
        print(f"  each has at most {private:.1f} MB of its own; the sandbox {before / 1e6:.0f} MB")
    finally:
        box.kill()
