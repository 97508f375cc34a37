"""``run_code`` beside a plain ipykernel, and branches of a process in one sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from typing import TYPE_CHECKING, Any, Final

from jupyter_client.manager import AsyncKernelManager

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.benchmarks import jupyter_kernels
from tests.benchmarks.contests import MEGABYTES, OURS, Contestants, Row
from tests.benchmarks.goals import at_most, ratio_to
from tests.benchmarks.harness import timed
from tests.benchmarks.jupyter_kernels import CODE, PLAIN
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

TEMPLATE: Final = "code-interpreter-v1"
BRANCHES: Final = 20
TABLES: Final = ("numpy", "pandas")
_USE_TABLES: Final = "import numpy, pandas\nprint(pandas.Series(numpy.arange(2)).sum())"

_BUILD_SECONDS: Final = 60.0

_MAKE: Final = """
data = bytearray(10 ** 9)
for place in range(0, 10 ** 9, 4096):
    data[place] = 1
"""
_BRANCH: Final = """
import json, os, time
def private():
    with open("/proc/self/smaps_rollup") as file:
        rows = dict(line.split(":") for line in file.read().splitlines()[1:])
    return sum(int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024
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


def config_of(engine: EngineClient) -> ConnectionConfig:
    """What our client needs to reach the engine."""
    given = engine.environment()
    return ConnectionConfig(
        api_url=given["E2B_API_URL"],
        sandbox_url=given["E2B_SANDBOX_URL"],
        api_key=given["E2B_API_KEY"],
    )


def run_code(sandbox: Sandbox, code: str = CODE) -> str:
    """Run code in a sandbox and return what it printed."""
    ran = sandbox.run_code(code)
    if ran.error is not None:
        raise RuntimeError(f"{ran.error.name}: {ran.error.value}")
    return "".join(ran.logs.stdout)


@contextlib.contextmanager
def _firsts(engine: EngineClient) -> Iterator[Contestants]:
    """From nothing to the output of the first code."""
    config = config_of(engine)

    def first() -> float:
        made: list[Sandbox] = []

        def work() -> None:
            made.append(Sandbox.create(TEMPLATE, config=config))
            run_code(made[0])

        taken = timed(work)
        made[0].kill()
        return taken

    with asyncio.Runner() as runner:
        yield {OURS: first, PLAIN: lambda: runner.run(_first_of_plain(CODE))}


async def _first_of_plain(code: str) -> float:
    return await jupyter_kernels.start_and_run(AsyncKernelManager(), code)


@contextlib.contextmanager
def _contexts(
    engine: EngineClient, template: str = TEMPLATE, code: str = CODE
) -> Iterator[Contestants]:
    """A new context in a running interpreter, with the output of its first code, which is 1."""
    sandbox = Sandbox.create(template, config=config_of(engine))
    try:
        run_code(sandbox)

        def fresh() -> float:
            made: list[Any] = []

            def work() -> None:
                made.append(sandbox.create_code_context())
                ran = sandbox.run_code(code, context=made[0])
                if "".join(ran.logs.stdout) != "1\n":
                    raise RuntimeError(f"no output: {ran.error}")

            taken = timed(work)
            sandbox.remove_code_context(made[0])
            return taken

        with asyncio.Runner() as runner:
            yield {OURS: fresh, PLAIN: lambda: runner.run(_first_of_plain(code))}
    finally:
        sandbox.kill()


def _tables_missing() -> str:
    """Which packages are not beside the engine, where sandboxes find them."""
    missing = [name for name in TABLES if importlib.util.find_spec(name) is None]
    return f"needs {' and '.join(missing)} beside the engine" if missing else ""


@contextlib.contextmanager
def _contexts_with_tables(engine: EngineClient) -> Iterator[Contestants]:
    """As ``_contexts``, of a template whose interpreter has imported the packages."""
    template = _build(engine, {"SBX_PRELOAD": ",".join(TABLES)})
    with _contexts(engine, template, _USE_TABLES) as contestants:
        yield contestants
    engine.platform("DELETE", f"/templates/{template}")


def _build(engine: EngineClient, variables: dict[str, str]) -> str:
    """Build a template for the interpreter with more variables; returns its id."""
    asked = engine.platform("POST", "/v3/templates", {"name": "bench-tables"})
    template, build = asked["templateID"], asked["buildID"]
    steps = [{"type": "ENV", "args": [item for pair in variables.items() for item in pair]}]
    message = {"fromTemplate": TEMPLATE, "steps": steps}
    engine.platform("POST", f"/v2/templates/{template}/builds/{build}", message)

    def status() -> str:
        return engine.platform("GET", f"/templates/{template}/builds/{build}/status")["status"]

    until(lambda: status() in ("ready", "error"), _BUILD_SECONDS, "the build does not end")
    if (found := status()) != "ready":
        raise RuntimeError(f"the build is {found}")
    return template


@contextlib.contextmanager
def _cells(engine: EngineClient) -> Iterator[Contestants]:
    """Code in a context that has run code before."""
    sandbox = Sandbox.create(TEMPLATE, config=config_of(engine))
    try:
        with asyncio.Runner() as runner:
            manager = AsyncKernelManager()
            client = runner.run(jupyter_kernels.opened(manager))
            yield {
                OURS: lambda: timed(lambda: run_code(sandbox)),
                PLAIN: lambda: runner.run(jupyter_kernels.run_cell(client)),
            }
            client.stop_channels()
            runner.run(_end(manager))
    finally:
        sandbox.kill()


async def _end(manager: AsyncKernelManager) -> None:
    await manager.shutdown_kernel(now=True)


@contextlib.contextmanager
def _branches(engine: EngineClient, *, memory: bool) -> Iterator[Contestants]:
    """Branches of a context with 1 GB, by ``os.fork``: their time, or the most memory of one."""
    sandbox = Sandbox.create(TEMPLATE, memory_mb=2048, config=config_of(engine))
    try:
        run_code(sandbox, _MAKE)

        def branch() -> float:
            seconds, private = json.loads(run_code(sandbox, _BRANCH % BRANCHES))
            return private if memory else seconds

        yield {OURS: branch}
    finally:
        sandbox.kill()


ROWS: Final = (
    Row(
        "First `run_code`, with the create of its sandbox",
        8,
        _firsts,
        (at_most(0.3, "300 ms"), ratio_to(PLAIN, 1.0)),
        "the interpreter's program and its kernel start after the create; importing ipykernel alone"
        " is the larger part",
        warm_up=1,
    ),
    Row(
        "`run_code` in a new context of a running interpreter",
        8,
        _contexts,
        (at_most(0.03, "30 ms"), ratio_to(PLAIN, 1.0)),
        "the context is a forked kernel that opens sockets and answers once before it gets code",
        warm_up=1,
    ),
    Row(
        "`run_code` with numpy and pandas in a new context, from a template that has them ready",
        8,
        _contexts_with_tables,
        (at_most(0.05, "50 ms"), ratio_to(PLAIN, 1.0)),
        "as in a new context without them, and what the first use of both costs in a fork",
        warm_up=1,
        unavailable=_tables_missing,
    ),
    Row(
        "`run_code` in a context that is open",
        100,
        _cells,
        (at_most(0.03, "30 ms"),),
    ),
    Row(
        f"{BRANCHES} `os.fork` branches of a context with 1 GB",
        5,
        lambda e: _branches(e, memory=False),
    ),
    Row(
        "Memory of its own that each of them has",
        3,
        lambda engine: _branches(engine, memory=True),
        unit=MEGABYTES,
        warm_up=1,
    ),
)
