"""The demo notebooks do what they say, on a real engine and in real kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest

from tests.demo.notebooks import SHOWN, check
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.demo.notebooks import Cells

pytestmark = pytest.mark.long

NOTEBOOKS = sorted(path.stem for path in (CHECKOUT / "binder").glob("*.ipynb"))
TESTED_ALONE = {"demo", "fork-and-compare"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_outputs(name: str) -> None:
    notebook = nbformat.read(CHECKOUT / "binder" / f"{name}.ipynb", as_version=4)

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_each_notebook_is_run() -> None:
    assert set(NOTEBOOKS) == {*SHOWN, *TESTED_ALONE}


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_does_what_it_says(name: str, run_notebook: Callable[[str], Cells]) -> None:
    check(name, run_notebook(name))
