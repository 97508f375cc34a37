"""A notebook whose cells a real kernel runs, one by one, with nbclient."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.engine_process import EngineProcess, engine_process, environment_of_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Cell:
    """What one cell printed and displayed, and the error that ended it."""

    def __init__(self, outputs: list[Any]) -> None:
        self.outputs = outputs
        self.stdout = self._stream("stdout")
        self.stderr = self._stream("stderr")
        errors = [output for output in outputs if output["output_type"] == "error"]
        self.error = COLOURS.sub("", "\n".join(errors[0]["traceback"])) if errors else None
        self.error_name = errors[0]["ename"] if errors else None

    def _stream(self, name: str) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == name)

    @property
    def displayed(self) -> list[dict[str, Any]]:
        """The displayed MIME bundles but the footer."""
        return [data for data in self._bundles() if "sbx-Footer" not in data.get("text/html", "")]

    @property
    def footer(self) -> str:
        """The footer as text; empty if there is none."""
        found = [d for d in self._bundles() if "sbx-Footer" in d.get("text/html", "")]
        return found[-1]["text/plain"] if found else ""

    def _bundles(self) -> list[dict[str, Any]]:
        return [output["data"] for output in self.outputs if "data" in output]


class Notebook:
    """A running kernel, fed cell by cell."""

    def __init__(self, client: NotebookClient, engine: EngineProcess) -> None:
        self.client = client
        self.engine = engine
        self.boxes: dict[str, str] = {}
        self.count: int | None = None
        """The number of the last cell."""

    def run(self, source: str) -> Cell:
        """Run a cell; an error is part of the result."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        index = len(self.client.nb.cells) - 1
        with contextlib.suppress(CellExecutionError):
            self.client.execute_cell(cell, index)
        self.count = cell.execution_count
        return Cell(cell.outputs)

    def value(self, expression: str) -> str:
        """The repr of an expression in the notebook's own kernel."""
        cell = self.run(f"%%local\nprint(repr({expression}))")
        assert cell.error is None, cell.error
        return cell.stdout.strip()


@contextlib.contextmanager
def notebook_on(engine: EngineProcess, home: Path) -> Iterator[Notebook]:
    """A notebook with the magics, whose kernel has its files in ``home``."""
    with environment_of_kernels(engine, home):
        client = NotebookClient(
            nbformat.v4.new_notebook(), timeout=120, resources={"metadata": {"path": str(home)}}
        )
        with client.setup_kernel():
            notebook = Notebook(client, engine)
            assert notebook.run("%load_ext sbx_jupyter").error is None
            yield notebook
            notebook.run("%%local\n%sbx default off")
            notebook.run("%sbx kill")


@pytest.fixture(scope="session")
def engine():
    with engine_process("magics") as running:
        yield running


@pytest.fixture(scope="module")
def kernel(engine, tmp_path_factory):
    """A kernel with the magics, shared by the tests of a module."""
    with notebook_on(engine, tmp_path_factory.mktemp("notebook")) as notebook:
        yield notebook
