"""Kernels in sandboxes beside plain ones, and ``%%sbx`` beside ``%%bash``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar
from unittest import mock

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from nbclient import NotebookClient

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.kernel.pool import READY
from tests.benchmarks import jupyter_kernels
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import more_than, ratio_to
from tests.benchmarks.jupyter_kernels import PLAIN
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from tests.benchmarks.harness import EngineClient

T = TypeVar("T")

BASH: Final = "%%bash"
_WAY_OF_A_CELL: Final = (
    "a request, the kernel in the sandbox besides that of the notebook, and a look at the sandbox's"
    " files at the end, for the footer"
)
_SPECS: Final = {OURS: "sbx-python3", PLAIN: "python3"}


class _Specs(KernelSpecManager):
    """The specification of this checkout, besides the installed ones."""

    def find_kernel_specs(self) -> dict[str, str]:
        return super().find_kernel_specs() | {
            _SPECS[OURS]: str(CHECKOUT / "sbx_jupyter" / "kernel" / "spec")
        }


@contextlib.contextmanager
def _kernels(engine: EngineClient) -> Iterator[asyncio.Runner]:
    """Lets kernels start on ``engine``, and ends what was kept ready for them."""
    with mock.patch.dict(os.environ, engine.environment()), asyncio.Runner() as runner:
        try:
            yield runner
        finally:
            runner.run(_nothing_ready())


def _manager(contestant: str) -> AsyncKernelManager:
    """A manager as a Jupyter server has them: for others no sandbox is kept ready."""
    return AsyncKernelManager(
        parent=AsyncMultiKernelManager(),
        kernel_name=_SPECS[contestant],
        kernel_spec_manager=_Specs(),
    )


async def _on_portal(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` where the sandboxes of kernels live."""
    return await asyncio.wrap_future(Portal.current().start(work))


async def _nothing_ready() -> None:
    await _on_portal(READY.aclose())


async def _one_ready() -> bool:
    return await _on_portal(READY.filled()) > 0


@contextlib.contextmanager
def _starts(engine: EngineClient, *, warm: bool) -> Iterator[Contestants]:
    async def start(contestant: str) -> float:
        return await jupyter_kernels.start_and_run(_manager(contestant))

    async def ours() -> float:
        if not warm:
            await _nothing_ready()
        elif not await _one_ready():  # before the first start
            await start(OURS)
            if not await _one_ready():
                raise RuntimeError("no sandbox is ready")
        return await start(OURS)

    with _kernels(engine) as runner:
        yield {OURS: lambda: runner.run(ours()), PLAIN: lambda: runner.run(start(PLAIN))}


@contextlib.contextmanager
def _cells(engine: EngineClient) -> Iterator[Contestants]:
    with _kernels(engine) as runner:
        managers = {name: _manager(name) for name in _SPECS}
        clients = {
            name: runner.run(jupyter_kernels.opened(manager)) for name, manager in managers.items()
        }

        def run(contestant: str) -> float:
            return runner.run(jupyter_kernels.run_cell(clients[contestant]))

        try:
            yield {name: lambda name=name: run(name) for name in _SPECS}
        finally:
            for name, manager in managers.items():
                clients[name].stop_channels()
                runner.run(_end(manager))


async def _end(manager: AsyncKernelManager) -> None:
    await manager.shutdown_kernel(now=True)


@contextlib.contextmanager
def _magics(engine: EngineClient, magic: str, source: str) -> Iterator[Contestants]:
    """A cell with a magic in a notebook's own kernel; its sandbox exists before."""
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as home:
        changes = engine.environment() | {"PYTHONPATH": str(CHECKOUT), "IPYTHONDIR": home}
        with mock.patch.dict(os.environ, changes):
            client = NotebookClient(nbformat.v4.new_notebook(), timeout=60)
            with client.setup_kernel():
                _cell(client, "%load_ext sbx_jupyter")
                _cell(client, "%sbx create")
                yield {
                    OURS: lambda: _second(client, f"{magic}\n{source}"),
                    BASH: lambda: _second(client, f"{BASH}\necho hi"),
                }
                _cell(client, "%sbx kill")


def _second(client: NotebookClient, source: str) -> float:
    """The second of two in a row: the first of a kind looks anew at what the kernel has."""
    _cell(client, source)
    return _cell(client, source)


def _cell(client: NotebookClient, source: str) -> float:
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    started = time.perf_counter()
    client.execute_cell(cell, len(client.nb.cells) - 1)
    return time.perf_counter() - started


ROWS: Final = (
    Row(
        "Start a kernel in a sandbox, nothing ready",
        5,
        lambda engine: _starts(engine, warm=False),
        (ratio_to(PLAIN, 1.0),),
        "a sandbox, the process that kernels are forked from with its imports, and the kernel"
        " start one after the other; the peer has the last two",
        warm_up=1,
    ),
    Row(
        "Start a kernel in a sandbox that is ready",
        5,
        lambda engine: _starts(engine, warm=True),
        (ratio_to(PLAIN, 1.0),),
        warm_up=1,
    ),
    Row(
        "Run a cell",
        150,
        _cells,
        (more_than(PLAIN, 0.002),),
        "each message passes two relays and the engine besides; on a machine that is twice as fast"
        " the goal is met",
        warm_up=10,
    ),
    Row(
        "Run a cell with `%%sbx bash`",
        40,
        lambda engine: _magics(engine, "%%sbx bash", "echo hi"),
        (ratio_to(BASH, 1.5),),
        _WAY_OF_A_CELL,
    ),
    Row(
        "Run a cell with `%%sbx`, in Python",
        40,
        lambda engine: _magics(engine, "%%sbx", "print('hi')"),
        (ratio_to(BASH, 1.5),),
        _WAY_OF_A_CELL,
    ),
)
