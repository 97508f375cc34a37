"""The notebook "fork and compare" does what it says, on a real engine and in a real kernel."""

from __future__ import annotations

import pytest

from tests.demo.notebooks import text_of as plain


@pytest.fixture(scope="module")
def cells(run_notebook):
    """The executed cells by their id."""
    return run_notebook("fork-and-compare")


@pytest.mark.long
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
