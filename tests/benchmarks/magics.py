"""Time of a cell with ``%%sbx`` beside one with ``%%bash``, in a notebook's own kernel."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

from tests.benchmarks.harness import report
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

ROUNDS = 50


def run(engine: EngineClient) -> None:
    os.environ.update(engine.environment() | {"PYTHONPATH": str(CHECKOUT)})
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as home:
        os.environ["IPYTHONDIR"] = home
        client = NotebookClient(nbformat.v4.new_notebook(), timeout=60)
        with client.setup_kernel():
            _cell(client, "%load_ext sbx_jupyter")
            _cell(client, "%sbx create")
            cells: dict[str, list[float]] = {"%%bash": [], "%%sbx bash": [], "%%sbx": []}
            for _ in range(ROUNDS):
                for magic, seconds in cells.items():
                    code = "print('hi')" if magic == "%%sbx" else "echo hi"
                    _cell(client, f"{magic}\n{code}")  # the first of a kind in a row looks anew
                    seconds.append(_cell(client, f"{magic}\n{code}"))
            _cell(client, "%sbx kill")
    for magic, seconds in cells.items():
        report(f"a cell with {magic}", seconds[3:], cells["%%bash"][3:])


def _cell(client: NotebookClient, source: str) -> float:
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    started = time.perf_counter()
    client.execute_cell(cell, len(client.nb.cells) - 1)
    return time.perf_counter() - started
