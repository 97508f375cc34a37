"""What common requests cost the engine's Python, in counts that no busy machine changes.

The engine runs in this process, so that what it calls can be counted. CONTRIBUTING.md says how the
table of costs is renewed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tornado.netutil import bind_sockets

import sbx_jupyter
from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.engine.state.database import Database
from sbx_jupyter.isolation.channel import Channel
from sbx_jupyter.isolation.tiers import Tier
from sbx_jupyter.service.context import ServiceSettings
from sbx_jupyter.service.server import Server
from tests.benchmarks import cost_table
from tests.benchmarks.common_requests import common_requests
from tests.benchmarks.cost_table import Costs, Limit
from tests.benchmarks.harness import EngineClient
from tests.engine.conftest import FAST_DISK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import FrameType

    from _typeshed import TraceFunction

    from tests.known_stock import KnownStock

ROUNDS: Final = 8
"""The least of these counts: other work of the engine adds to some of them."""
EVERY_PYTHON: Final = "every Python"
THIS_PYTHON: Final = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
LIMITS: Final = {
    # Counts of some units differ between runs.
    "calls": Limit(0.15, 5),
    "messages": Limit(0.15),
    "rows": Limit(0.15),
    "thread jobs": Limit(0.15),
    "bytecode": Limit(0.15, 100),
    "objects kept": Limit(0.15, 50),
}

_OF_THIS_PYTHON: Final = ("bytecode", "objects kept")
_IN_PIECES: Final = ("upload", "download")
"""In how many pieces a file comes depends on how client and engine take turns in this process."""

_OURS: Final = f"{Path(sbx_jupyter.__file__).parent}{os.sep}"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or "SBX_TEST_USER_ID" in os.environ,
    reason="the table is of an engine of root without a helper",
)


class Counts:
    """Counts what the engine does in this process, whose event loop runs in the main thread."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Count messages to agents and zygote, stored rows, and jobs for other threads."""
        send, write, to_thread = Channel._send, Database.write, asyncio.to_thread

        def counted_send(channel: Channel, *args: Any) -> None:
            self._found["messages"] += 1
            send(channel, *args)

        def counted_write(database: Database, batches: list[Any]) -> None:
            self._found["rows"] += sum(len(each.puts) + len(each.logs) for each in batches)
            write(database, batches)

        async def counted_to_thread(*args: Any, **kwargs: Any) -> Any:
            self._found["thread jobs"] += 1
            return await to_thread(*args, **kwargs)

        patch.setattr(Channel, "_send", counted_send)
        patch.setattr(Database, "write", counted_write)
        patch.setattr(asyncio, "to_thread", counted_to_thread)

    def _note_call(self, frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            return None
        # Comprehensions are calls in some versions of Python and not in others.
        if code.co_name[0] != "<":
            self._found["calls"] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._note_bytecode

    def _note_bytecode(self, _frame: FrameType, event: str, _argument: object) -> TraceFunction:
        self._found["bytecode"] += event == "opcode"
        return self._note_bytecode

    async def least(self, work: Callable[[], object], thread: Executor) -> dict[str, int]:
        """The least counts of some rounds of ``work``, which ``thread`` does."""
        least: dict[str, int] = {}
        for _ in range(ROUNDS):
            self._found.clear()
            sys.settrace(self._note_call)
            try:
                await asyncio.get_running_loop().run_in_executor(thread, work)
            finally:
                sys.settrace(None)
            for name in ("calls", "bytecode", "messages", "rows", "thread jobs"):
                found = self._found[name]
                least[name] = min(least.get(name, found), found)
        return least


async def objects_kept(work: Callable[[], object], thread: Executor) -> int:
    """How many objects more there are after ``work`` than before, the median of some rounds."""
    loop = asyncio.get_running_loop()
    kept: list[int] = []
    for _ in range(ROUNDS):
        gc.collect()
        blocks = sys.getallocatedblocks()
        await loop.run_in_executor(thread, work)
        gc.collect()
        kept.append(sys.getallocatedblocks() - blocks)
    return statistics.median_low(kept)


@pytest.fixture
def thread() -> Iterator[Executor]:
    """A thread in which the client works, so that what it does is not counted."""
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture
async def client(known_stock: KnownStock, thread: Executor) -> AsyncIterator[EngineClient]:
    """A client, for ``thread``, of an engine that runs here."""
    assert threading.current_thread() is threading.main_thread()
    with tempfile.TemporaryDirectory(prefix="costs-", dir=FAST_DISK) as folder:
        config = EngineConfig(
            Path(folder) / "data", pool_size=0, metrics_interval=3600, warm_interpreter=False
        )
        engine = Engine(config)
        await engine.start()
        # It looks by the clock: where the processors are busy, in each round of a request.
        await engine._running().watchdog.stop()
        if engine.tier != Tier.NAMESPACES:
            await engine.stop(kill_sandboxes=True)
            pytest.skip("the table is of sandboxes with namespaces")
        server = Server(engine, "e2b_key", ServiceSettings(version="1"))
        sockets = bind_sockets(0, "127.0.0.1")
        server.start(sockets)
        try:
            port = sockets[0].getsockname()[1]
            client = EngineClient(f"http://127.0.0.1:{port}", "e2b_key", os.getpid())
            yield client
            await asyncio.get_running_loop().run_in_executor(thread, client.close)
        finally:
            await server.stop()
            await engine.stop(kill_sandboxes=True)


async def test_common_requests_cost_no_more_than_they_did(
    client: EngineClient, thread: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, found = Counts(), dict[str, dict[str, int]]()
    loop = asyncio.get_running_loop()
    counts.watch(monkeypatch)
    requests = common_requests(client)
    gc.freeze()  # what the run of tests has in memory would make each collection long
    try:
        while (request := await loop.run_in_executor(thread, next, requests, None)) is not None:
            name, work = request
            if name.startswith(_IN_PIECES):
                continue
            found[name] = await counts.least(work, thread)
            found[name]["objects kept"] = await objects_kept(work, thread)
    finally:
        gc.unfreeze()

    assert all(found["create"].values())
    cost_table.check(EVERY_PYTHON, _only(found, False), LIMITS)
    if not cost_table.known(THIS_PYTHON):
        pytest.skip(f"the table has no {THIS_PYTHON}; to record it, as root: {cost_table.RENEW}")
    cost_table.check(THIS_PYTHON, _only(found, True), LIMITS)


def _only(found: Costs, of_this_python: bool) -> Costs:
    """The counts that differ between versions of Python, or the others."""
    return {
        request: {
            what: count
            for what, count in counts.items()
            if (what in _OF_THIS_PYTHON) == of_this_python
        }
        for request, counts in found.items()
    }
