"""Modules import each other in one direction only, and each package says what is in it."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import sbx_jupyter

# It names modules for type checkers, and imports a public name when it is first used.
LAZY = "sbx_jupyter"


def imports() -> dict[str, set[str]]:
    """What each module of the package imports directly."""
    graph = grimp.build_graph("sbx_jupyter", cache_dir=None)
    return {
        module: graph.find_modules_directly_imported_by(module) for module in graph.modules - {LAZY}
    }


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle, the first of them twice; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_cycle():
    """Imports of names for type checkers count too."""
    assert find_cycle(imports()) == []


def test_each_package_says_what_lives_there_and_what_may_be_touched():
    package = Path(sbx_jupyter.__file__).parent
    texts = {
        str(face.parent.relative_to(package)): ast.get_docstring(ast.parse(face.read_text())) or ""
        for face in package.rglob("__init__.py")
    }

    assert [name for name, text in texts.items() if len(text.splitlines()) < 3] == []
    assert "engine/live" in texts


@pytest.mark.parametrize(
    ("graph", "length"),
    [({"a": {"b"}, "b": {"c"}, "c": {"a"}}, 4), ({"a": {"b"}, "b": {"c"}}, 0)],
)
def test_a_cycle_is_found(graph: dict[str, set[str]], length: int):
    assert len(find_cycle(graph)) == length
