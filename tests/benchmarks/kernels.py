"""Time to start a kernel and to run a cell, in a sandbox and without one."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.kernel.pool import READY
from tests.benchmarks.harness import report
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from jupyter_client.asynchronous.client import AsyncKernelClient

    from tests.benchmarks.harness import EngineClient

T = TypeVar("T")

STARTS = 5
CELLS = 200
PLAIN = "python3"
SANDBOXED = "sbx-python3"


class Specs(KernelSpecManager):
    """The specification of this checkout, besides the installed ones."""

    def find_kernel_specs(self) -> dict[str, str]:
        return super().find_kernel_specs() | {
            SANDBOXED: str(CHECKOUT / "sbx_jupyter" / "kernel" / "spec")
        }


def run(engine: EngineClient) -> None:
    os.environ.update(engine.environment())
    try:
        asyncio.run(_run())
    finally:
        Portal.current().close()


async def _run() -> None:
    manager = AsyncMultiKernelManager(kernel_spec_manager=Specs())
    plain = [await _start(manager, PLAIN) for _ in range(STARTS)]
    cold: list[float] = []
    for _ in range(STARTS):
        cold.append(await _start(manager, SANDBOXED))
        await on_portal(READY.aclose())
    await _start(manager, SANDBOXED)
    warm: list[float] = []
    for _ in range(STARTS):
        await _until_ready()
        warm.append(await _start(manager, SANDBOXED))
    report("start a plain ipykernel, to first output", plain)
    report("start one in a sandbox, nothing ready", cold, plain)
    report("start one in a sandbox that is ready", warm, plain)
    cells = await _cells(manager)
    report("a cell in a plain ipykernel", cells[PLAIN])
    report("a cell in a sandboxed kernel", cells[SANDBOXED], cells[PLAIN])
    more = statistics.median(cells[SANDBOXED]) - statistics.median(cells[PLAIN])
    print(f"  the sandboxed one takes {more * 1e3:+.2f} ms by median", flush=True)


async def _start(manager: AsyncMultiKernelManager, name: str) -> float:
    """Seconds from the request to the output of the first cell."""
    started = time.perf_counter()
    kernel_id = await manager.start_kernel(kernel_name=name)
    client = cast("AsyncKernelClient", manager.get_kernel(kernel_id).client())
    client.start_channels()
    # ``wait_for_ready`` waits another 0.2 s for output that it leaves out.
    await client._async_execute_interactive("print(1)", output_hook=lambda _: None, timeout=60)
    seconds = time.perf_counter() - started
    client.stop_channels()
    await manager.shutdown_kernel(kernel_id, now=True)
    return seconds


async def _cells(manager: AsyncMultiKernelManager) -> dict[str, list[float]]:
    """Seconds of each cell, in both kernels by turns."""
    kernels = {name: await manager.start_kernel(kernel_name=name) for name in (PLAIN, SANDBOXED)}
    clients: dict[str, AsyncKernelClient] = {}
    for name, kernel_id in kernels.items():
        client = cast("AsyncKernelClient", manager.get_kernel(kernel_id).client())
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        clients[name] = client
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    names = list(clients)
    for _ in range(CELLS):
        random.shuffle(names)
        for name in names:
            seconds[name].append(await _cell(clients[name]))
    for name, kernel_id in kernels.items():
        clients[name].stop_channels()
        await manager.shutdown_kernel(kernel_id, now=True)
    return {name: taken[10:] for name, taken in seconds.items()}


async def _cell(client: AsyncKernelClient) -> float:
    started = time.perf_counter()
    await client._async_execute_interactive("print(1)", output_hook=lambda _: None, timeout=60)
    return time.perf_counter() - started


async def _until_ready() -> None:
    assert await on_portal(READY.filled()), "no sandbox is ready"


async def on_portal(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` where the sandboxes of kernels live."""
    return await asyncio.wrap_future(Portal.current().start(work))
