"""What common requests cost the engine, in counts that no busy machine changes.

The table ``costs.json`` has the counts of the last look. A change that makes a request cost more
than a seventh more fails here. To renew the table: ``SBX_RENEW_COSTS=1 pytest`` with this file, as
root; say in the commit what became dearer and why.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
import threading
import time
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
from tests.benchmarks.harness import EngineClient, first_output
from tests.engine.conftest import FAST_DISK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import FrameType

    from tests.known_stock import KnownStock

TABLE: Final = Path(__file__).with_name("costs.json")
ALLOWED: Final = 1.15
SLACK: Final = 5
"""Counts that differ between runs."""
ROUNDS: Final = 6
"""The least of these counts: other work of the engine adds to some of them."""

_FILES: Final = 50
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

    def _note_call(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # Comprehensions are calls in some versions of Python and not in others.
        if event == "call" and code.co_filename.startswith(_OURS) and code.co_name[0] != "<":
            self._found["calls"] += 1

    async def least(self, work: Callable[[], None], thread: Executor) -> dict[str, int]:
        """The least counts of some rounds of ``work``, which ``thread`` does."""
        least: dict[str, int] = {}
        for _ in range(ROUNDS):
            self._found.clear()
            sys.setprofile(self._note_call)
            try:
                await asyncio.get_running_loop().run_in_executor(thread, work)
            finally:
                sys.setprofile(None)
            for name in ("calls", "messages", "rows", "thread jobs"):
                found = self._found[name]
                least[name] = min(least.get(name, found), found)
        return least


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


def _requests(client: EngineClient) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each kind of request; what is made before the first is not counted."""
    made: list[dict[str, Any]] = []
    yield "create", lambda: made.append(client.create())
    sandbox = made[0]
    yield "exec", lambda: first_output(client, sandbox)

    def call(method: str, message: dict[str, Any]) -> None:
        client.unary(sandbox, f"filesystem.Filesystem/{method}", message)

    for number in range(_FILES):
        call("MakeDir", {"path": f"many/{number}"})
    yield f"list {_FILES} files", lambda: call("ListDir", {"path": "many"})
    yield "stat", lambda: call("Stat", {"path": "many"})
    message = {"process": {"cmd": "/bin/cat", "args": []}, "stdin": True}
    with client.stream(sandbox, "process.Process/Start", message) as events:
        pid = json.loads(next(events)[1])["event"]["start"]["pid"]
        text = base64.b64encode(b"x").decode()
        key = {"process": {"pid": pid}, "input": {"stdin": text}}

        def echo() -> None:
            client.unary(sandbox, "process.Process/SendInput", key)
            assert b'"stdout"' in next(events)[1]

        yield "echo", echo
    yield "nothing", lambda: client.platform("GET", "/health")


async def test_common_requests_cost_no_more_than_they_did(
    client: EngineClient, thread: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, found = Counts(), dict[str, dict[str, int]]()
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    counts.watch(monkeypatch)
    requests = _requests(client)
    while (request := await loop.run_in_executor(thread, next, requests, None)) is not None:
        name, work = request
        found[name] = await counts.least(work, thread)

    if "SBX_RENEW_COSTS" in os.environ:
        TABLE.write_text(json.dumps(found, indent=2) + "\n")
        print(f"{time.monotonic() - started:.2f} s")
    table: dict[str, dict[str, int]] = json.loads(TABLE.read_text())
    dearer = [
        f"{name}: {count} {what}, {table[name][what]} before"
        for name, counted in found.items()
        for what, count in counted.items()
        if count > table[name][what] * ALLOWED + (SLACK if what == "calls" else 0)
    ]
    assert not dearer, "; ".join(dearer)
    assert all(found["create"].values())
