"""The report of ``make bench`` lists every row that is measured, with goals that are met or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.contests import OURS, Figures, Row, ratio
from tests.benchmarks.goals import at_most, late_ratio_to, more_than, percentile, ratio_to
from tests.benchmarks.groups import GROUPS, ROWS, Group
from tests.benchmarks.growth import CURVES, Costs, Curve
from tests.benchmarks.peers import HEADINGS, PEERS
from tests.benchmarks.report import sections_of, table_lines, to_page, to_section

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
MACHINE = {
    "date": "2026-01-02",
    "processor": "AMD EPYC, 2 cores",
    "kernel": "6.1",
    "python": "3.11.7",
    "load": "0.1 to 0.2",
}


def row(*goals, reason: str = "") -> Row:
    return Row("Do it", 3, ROWS[0].open, goals, reason)


def test_a_ratio_lies_in_its_interval() -> None:
    theirs = [1.0 + number / 100 for number in range(50)]

    found = ratio([2 * seconds for seconds in reversed(theirs)], theirs)

    assert found.value == pytest.approx(2)
    assert 1.5 < found.low < found.value < found.high < 2.5


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 51.0), (0.99, 100.0), (1, 100)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], share) == expected


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [
        (ratio_to("one", 2.0), True),
        (ratio_to("one", 1.9), False),
        (late_ratio_to("one", 8.0), True),
        (late_ratio_to("one", 7.9), False),
        (more_than("one", 0.001), True),
        (more_than("one", 0.0009), False),
        (at_most(0.002, "2 ms"), True),
        (at_most(0.0019, "1.9 ms"), False),
    ],
)
def test_a_goal_is_met_up_to_its_limit(goal, is_met: bool) -> None:
    figures = Figures(row(goal), {OURS: [0.002, 0.002, 0.008], "one": [0.001, 0.001, 0.001]})

    assert figures.is_met(goal) is is_met
    assert figures.missed == ([] if is_met else [goal])


def test_a_goal_whose_peer_was_not_measured_is_not_missed() -> None:
    assert Figures(row(ratio_to("one", 1.0)), {OURS: [0.002]}).missed == []


def test_the_table_has_a_line_for_each_peer() -> None:
    figures = Figures(
        row(ratio_to("one", 1.0), at_most(0.003, "3 ms")),
        {OURS: [0.002], "one": [0.001], "other": [0.004]},
    )

    assert table_lines(figures) == [
        "| Do it | 2.00 ms | one | 1.00 ms | **2.00** (2.00 to 2.00) | 1.0: missed; 3 ms: met |",
        "| Do it | 2.00 ms | other | 4.00 ms | **0.50** (0.50 to 0.50) | — |",
    ]


def test_a_missed_goal_has_its_reason() -> None:
    figures = Figures(row(at_most(0.001, "1 ms"), reason="it waits for the disk"), {OURS: [0.002]})

    section = to_section(MACHINE, {"crun": "not installed"}, [figures])

    assert "Not measured here: crun (not installed)." in section
    assert "- Do it (1 ms): it waits for the disk." in section


def test_a_run_rewrites_the_sections_that_it_measured() -> None:
    first, second = (group.title for group in list(GROUPS.values())[:2])
    old = to_page({first: "old first", second: "old second"}, "# Old\n\n## Gone\n\ntext\n")

    page = to_page({first: "new first"}, old)

    assert f"## {first}\n\nnew first\n\n## {second}\n\nold second\n" in page
    assert "Gone" not in page
    assert to_page({}, page) == page


def test_a_curve_is_shown_with_the_cost_at_each_size() -> None:
    curve = Curve("Files", "µs for each", 1e6, (1, 1000), CURVES[0].open, "It is flat.")

    lines = Costs(curve, {1: [3e-6, 1e-6, 2e-6], 1000: [1e-6]}).lines()

    assert lines[0] == "| Files | 1 | 1,000 |"
    assert lines[2] == "| µs for each | 2.00 | 1.00 |"


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_the_documentation_has_figures_of_each_row_of_a_group(group: Group) -> None:
    section = sections_of(PAGE.read_text()).get(group.title)

    assert section is not None or not group.is_default
    if section is not None:  # the others take longer, and a run writes those that it measured
        assert [row.name for row in group.rows if f"| {row.name} | " not in section] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_peer_that_a_goal_names_is_explained(row: Row) -> None:
    explained = " ".join(peer[0] for peer in PEERS).replace("`", "")
    beside = {"one that runs"}

    for goal in row.goals:
        assert goal.peer in explained or goal.peer in beside, goal.peer


def test_each_peer_has_every_column() -> None:
    assert {len(peer) for peer in PEERS} == {len(HEADINGS)}
