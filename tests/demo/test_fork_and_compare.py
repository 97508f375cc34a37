"""The notebook "fork and compare" does what it says, on a real engine and in a real kernel."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from tests.engine_process import CHECKOUT, engine_process, environment_of_kernels

NOTEBOOK = CHECKOUT / "binder" / "fork-and-compare.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The executed cells by their id."""
    home = tmp_path_factory.mktemp("fork-and-compare")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with engine_process("compare") as engine, environment_of_kernels(engine, home):
        NotebookClient(notebook, timeout=40, resources={"metadata": {"path": str(home)}}).execute()
    return {cell["id"]: cell for cell in notebook.cells if cell.cell_type == "code"}


def plain(cell):
    return "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_no_cell_prints_an_error(cells):
    for name, cell in cells.items():
        assert all(output.get("name") != "stderr" for output in cell.outputs), (name, cell.outputs)


def test_the_forks_are_compared_side_by_side(cells):
    text = plain(cells["compare"])

    for number, way in enumerate(("drop", "median", "clip"), 1):
        assert f"study-{number}: " in text
        assert f"{way}: slope " in text
    assert text.count("1 file changed") == 3
    assert "Forks have files, not memory" in text


def test_the_best_is_named_and_kept(cells):
    assert "nearest to the true slope of 3: clip" in plain(cells["fetch"])
    assert "+ /home/user/fit.json" in plain(cells["diff"])
    assert "%sbx restore" in plain(cells["keep"])
    assert plain(cells["end"]).count("ended study") == 4
