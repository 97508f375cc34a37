"""What is read back from figures, without a kernel (interface 5.4)."""

from __future__ import annotations

import datetime as dt

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from sbx_jupyter.interpreter.charts import from_figure

mpl.use("agg")


@pytest.fixture
def figure():
    return Figure()


def chart_of(figure):
    chart = from_figure(figure)
    assert chart is not None
    return chart


def test_lines_without_a_label_are_numbered(figure):
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], label="named")
    axes.plot([1, 2], [5, 6])
    axes.axhline(4)

    elements = chart_of(figure)["elements"]

    assert elements == [
        {"label": "named", "points": [[1, 3], [2, 4]]},
        {"label": "Line 1", "points": [[1, 5], [2, 6]]},
    ]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (dt.date(2024, 1, 2), "2024-01-02"),
        (dt.datetime(2024, 1, 2, 3), "2024-01-02T03:00:00"),
        (np.datetime64("2024-01-02"), "2024-01-02T00:00:00"),
    ],
)
def test_dates_are_as_they_were_given(figure, given, shown):
    figure.subplots().plot([given], [1])

    chart = chart_of(figure)

    assert chart["elements"][0]["points"] == [[shown, 1]]
    assert (chart["x_scale"], chart["y_scale"]) == ("datetime", "linear")
    assert all("T" in tick for tick in chart["x_ticks"])


def test_the_ticks_of_categories_are_their_places(figure):
    figure.subplots().plot(["low", "high"], [1, 2])

    chart = chart_of(figure)

    assert (chart["x_scale"], chart["x_ticks"]) == ("categorical", [0, 1])
    assert chart["x_tick_labels"] == ["low", "high"]
    assert chart["elements"][0]["points"] == [["low", 1], ["high", 2]]


@pytest.mark.parametrize(
    ("label", "unit"),
    [("Time (s)", "s"), ("Time [s] passed", "s"), ("Time (s) passed", "s"), ("f(x)", None)],
)
def test_a_unit_stands_in_brackets(figure, label, unit):
    axes = figure.subplots()
    axes.plot([1, 2])
    axes.set_xlabel(label)

    assert chart_of(figure)["x_unit"] == unit


def test_lying_bars_have_their_labels_turned(figure):
    axes = figure.subplots()
    axes.barh(["p", "q"], [3, 4])
    axes.set(xlabel="Books (n)", ylabel="Authors")

    chart = chart_of(figure)

    assert (chart["x_label"], chart["y_label"], chart["y_unit"]) == ("Authors", "Books (n)", "n")
    assert chart["elements"] == [
        {"label": "p", "group": "Group 0", "value": 3},
        {"label": "q", "group": "Group 0", "value": 4},
    ]


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("orientation", ["vertical", "horizontal"])
def test_boxes_are_read_in_every_form(figure, filled, orientation):
    axes = figure.subplots()
    axes.boxplot(
        [[1, 2, 3, 4, 20], [5, 6, 7]],
        tick_labels=["a", "b"],
        patch_artist=filled,
        orientation=orientation,
    )

    chart = chart_of(figure)

    assert chart["type"] == "box_and_whisker"
    assert [list(box.values()) for box in chart["elements"]] == [
        ["a", 1, 2, 3, 4, 4, [20]],
        ["b", 5, 5.5, 6, 6.5, 7, []],
    ]


def test_angles_are_without_noise(figure):
    figure.subplots().pie([1, 3], labels=["small", "big"])

    assert [wedge["angle"] for wedge in chart_of(figure)["elements"]] == [90, 270]


def test_mixed_kinds_are_unknown(figure):
    axes = figure.subplots()
    axes.bar(["p"], [1])
    axes.plot(["p", "q"], [1, 2])

    assert chart_of(figure) == {"type": "unknown", "title": None, "elements": []}


def test_all_axes_of_a_figure_are_parts_of_its_chart(figure):
    left, _, right = figure.subplots(1, 3)
    left.plot([1, 2])
    right.scatter([1], [2], label="dots")

    chart = chart_of(figure)

    assert chart["type"] == "superchart"
    assert [part["type"] for part in chart["elements"]] == ["line", "line", "scatter"]
    assert chart["elements"][2]["elements"] == [{"label": "dots", "points": [[1, 2]]}]


def test_an_empty_figure_has_no_chart(figure):
    figure.subplots()

    assert from_figure(figure) is None
