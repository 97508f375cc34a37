"""The report of ``make bench`` lists every row that is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.comparison import to_markdown
from tests.benchmarks.contests import OURS, Figures, Row, ratio
from tests.benchmarks.rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def test_a_ratio_lies_in_its_interval() -> None:
    theirs = [1.0 + number / 100 for number in range(50)]

    found = ratio([2 * seconds for seconds in reversed(theirs)], theirs)

    assert found.value == pytest.approx(2)
    assert 1.5 < found.low < found.value < found.high < 2.5


def test_the_report_has_a_line_for_each_peer() -> None:
    figures = Figures(ROWS[0], {OURS: [0.002], "one": [0.001], "other": [0.004]})

    lines = to_markdown({"Kernel": "6.1"}, [figures]).splitlines()

    start = f"| {ROWS[0].name} | 2.00 ms (2.00) |"
    assert f"{start} one | 1.00 ms (1.00) | **2.00** (2.00 to 2.00) | {ROWS[0].goal} |" in lines
    assert f"{start} other | 4.00 ms (4.00) | **0.50** (0.50 to 0.50) | {ROWS[0].goal} |" in lines


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_documentation_has_figures_of_each_row(row: Row) -> None:
    assert f"| {row.name} | " in PAGE.read_text()
