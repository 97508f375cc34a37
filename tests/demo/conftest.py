"""One engine for all demo notebooks, and a function that runs a notebook on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.demo.notebooks import executed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.demo.notebooks import Cells
    from tests.engine_process import EngineProcess


@pytest.fixture(scope="session")
def run_notebook(
    shared_engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Cells]:
    """Runs a notebook of ``binder/`` and returns its code cells by their ids."""
    return lambda name: executed(name, shared_engine, tmp_path_factory.mktemp(name))
