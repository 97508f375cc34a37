"""The report of ``make bench`` lists every row that is measured, with goals that are met or not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks.comparison import measure_group
from tests.benchmarks.contests import OURS, Absent, Figures, Row, ratio
from tests.benchmarks.goals import at_most, late_ratio_to, more_than, percentile, ratio_to
from tests.benchmarks.groups import GROUPS, ROWS, Group
from tests.benchmarks.growth import CURVES, Costs, Curve
from tests.benchmarks.peers import HEADINGS, PEERS
from tests.benchmarks.plots import curve, ratios
from tests.benchmarks.report import (
    PICTURE,
    Written,
    sections_of,
    table_lines,
    to_page,
    to_section,
    write,
)

SVG = "{http://www.w3.org/2000/svg}"
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
EXPERIMENTS = PAGE.with_name("performance-experiments.md")
MACHINE = {
    "date": "2026-01-02",
    "processor": "AMD EPYC, 2 cores",
    "kernel": "6.1",
    "python": "3.11.7",
    "load": "0.1 to 0.2",
    "commit": "1234567",
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
        "| Do it | 1 | 2.00 ms | one | 1.00 ms | **2.00** (2.00 to 2.00) | 1.0: missed;"
        " 3 ms: met |",
        "| Do it | 1 | 2.00 ms | other | 4.00 ms | **0.50** (0.50 to 0.50) | — |",
    ]


def test_a_missed_goal_has_its_reason() -> None:
    figures = Figures(row(at_most(0.001, "1 ms"), reason="it waits for the disk"), {OURS: [0.002]})

    section = to_section(MACHINE, {"crun": "not installed"}, [figures])

    assert "load average 0.1 to 0.2, commit 1234567. Not measured" in section
    assert "Not measured here: crun (not installed)." in section
    assert "- Do it (1 ms): it waits for the disk." in section


def test_a_row_that_cannot_be_measured_is_listed_with_the_reason() -> None:
    absent = Absent(row(at_most(0.05, "50 ms")), "needs mkfs.btrfs")

    section = to_section(MACHINE, {}, [], [absent])

    assert "| Do it | — | not measured here: needs mkfs.btrfs |" in section
    assert "50 ms: not measured" in section
    assert "missed" not in section


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_a_group_starts_no_engine_when_this_machine_can_measure_none_of_its_rows(
    group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tuple(replace(row, unavailable=lambda: "needs another machine") for row in group.rows)

    def start(*options: str):
        raise AssertionError(options)

    measured, absent = measure_group(group._replace(rows=rows, engine=start), 1.0, [])

    assert measured == []
    assert [row.name for row, _ in absent] == [row.name for row in group.rows]
    assert capsys.readouterr().out.count("needs another machine") == len(rows)


def test_the_ratios_of_a_group_are_drawn_with_their_intervals() -> None:
    figures = Figures(row(), {OURS: [0.002] * 3, "a & b": [0.001] * 3, "other": [0.1] * 3})

    drawn = ElementTree.fromstring(ratios([figures]))

    texts = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert {"2.00", "0.02", "beside a & b", "beside other", "1"} <= set(texts)
    ours, far = (float(dot.attrib["cx"]) for dot in drawn.iter(f"{SVG}circle"))
    assert ours > far
    assert ratios([Figures(row(), {OURS: [0.002]})]) == ""


def test_a_curve_is_drawn_with_a_point_for_each_size() -> None:
    drawn = ElementTree.fromstring(curve("Files", "µs for each", [(1, 8.0), (10, 4.0), (100, 0.0)]))

    points = [
        (float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in drawn.iter(f"{SVG}circle")
    ]
    assert points == sorted(points)  # to the right, and down
    assert len({x for x, _ in points}) == len({y for _, y in points}) == 3


def test_a_run_writes_the_page_its_pictures_and_its_figures(tmp_path: Path) -> None:
    figures = Figures(row(), {OURS: [0.00212345], "one": [0.001]})
    page = tmp_path / "docs" / "performance.md"
    first = next(iter(GROUPS.values())).title
    for name in ("one", "two"):
        written = Written()
        link = written.add_picture(name, "A picture", "<svg/>")
        written.sections[first] = to_section(MACHINE, {}, [figures], picture=link)
        written.found[name] = {"machine": MACHINE, "rows": [figures.to_json()]}
        write(written, page, tmp_path / "figures.json")

    assert "![A picture](pictures/performance-two.svg)" in page.read_text()
    assert (page.parent / "pictures" / "performance-two.svg").read_text() == "<svg/>"
    whole, short = (
        json.loads((tmp_path / at).read_text()) for at in ("figures.json", "docs/performance.json")
    )
    assert set(whole) == set(short) == {"one", "two"}
    assert whole["two"]["rows"][0]["values"][OURS] == [0.00212345]
    assert "values" not in short["two"]["rows"][0]
    assert short["two"]["rows"][0]["medians"] == {OURS: 0.002123, "one": 0.001}
    assert short["two"]["rows"][0]["rounds"] == 1


def test_each_picture_of_the_page_is_there_and_no_other() -> None:
    shown = re.findall(rf"\(pictures/({PICTURE}[a-z0-9-]+\.svg)\)", PAGE.read_text())
    there = [file.name for file in (PAGE.parent / "pictures").glob(f"{PICTURE}*")]

    assert sorted(there) == sorted(shown)


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


def test_the_experiments_name_each_row_that_misses_a_goal() -> None:
    missed = {row.split(" | ")[0].removeprefix("| ") for row in rows_of(PAGE) if ": missed" in row}
    explained = {row.split(" | ")[0].removeprefix("| ") for row in rows_of(EXPERIMENTS)}

    assert missed
    assert missed - explained == set()


def rows_of(page: Path) -> list[str]:
    """The lines of the tables of a page."""
    return [line for line in page.read_text().splitlines() if line.startswith("| ")]


def test_each_peer_has_every_column() -> None:
    assert {len(peer) for peer in PEERS} == {len(HEADINGS)}
