"""Starts kernels and runs cells in them, as Jupyter does."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from jupyter_client.asynchronous.client import AsyncKernelClient
    from jupyter_client.manager import AsyncKernelManager

PLAIN: Final = "ipykernel"
CODE: Final = "print(1)"
_PATIENCE: Final = 60.0


async def start_and_run(manager: AsyncKernelManager, code: str = CODE) -> float:
    """Seconds from the start of a kernel to the answer to its first cell; ends the kernel.

    The output of the first cell may come before the client listens to it, so that the answer is
    what to wait for.
    """
    started = time.perf_counter()
    await manager.start_kernel(stderr=subprocess.DEVNULL)
    client: AsyncKernelClient = manager.client()
    client.start_channels()
    try:
        answer = await cast("Any", client).execute(code, reply=True, timeout=_PATIENCE)
        taken = time.perf_counter() - started
        if answer["content"]["status"] != "ok":
            raise RuntimeError(f"the first cell failed: {answer['content']}")
        return taken
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def opened(manager: AsyncKernelManager) -> AsyncKernelClient:
    """A client of a new kernel that is ready."""
    await manager.start_kernel(stderr=subprocess.DEVNULL)
    client: AsyncKernelClient = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=_PATIENCE)
    return client


async def run_cell(client: AsyncKernelClient) -> float:
    """Seconds of a cell, to the end of its output."""
    started = time.perf_counter()
    await client._async_execute_interactive(CODE, output_hook=lambda _: None, timeout=_PATIENCE)
    return time.perf_counter() - started
