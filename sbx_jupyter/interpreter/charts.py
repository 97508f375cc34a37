"""Reads back from a matplotlib figure what it shows (interface 5.4)."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SCALES: Final = frozenset({"linear", "log", "symlog", "logit", "function", "functionlog", "asinh"})

_NEAR: Final = 1e-9
_UNIT: Final = re.compile(r"\s\((.*?)\)|\[(.*?)\]")
_OWN_LINE: Final = re.compile(r"_child(\d+)\Z")
_OWN_GROUP: Final = re.compile(r"_container(\d+)\Z")

Chart = dict[str, Any]


def from_figure(figure: Any) -> Chart | None:
    """The chart of a figure, a ``superchart`` for several axes, ``None`` for an empty one."""
    if not any(axes.has_data() for axes in figure.axes):
        return None
    charts = [from_axes(axes) for axes in figure.axes]
    if len(charts) == 1:
        return charts[0]
    return {"type": "superchart", "title": figure.get_suptitle(), "elements": charts}


def from_axes(axes: Any) -> Chart:
    """The chart of one pair of axes; of ``unknown`` type if different kinds are mixed in it."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge

    drawn = [*axes.lines, *axes.patches, *axes.collections]
    drawn += [*axes.images, *axes.artists, *axes.tables]
    if _are(drawn, Line2D, PathPatch):
        for is_turned in (False, True):
            if boxes := _boxes(axes, is_turned):
                return _chart(axes, "box_and_whisker", boxes, is_turned=is_turned)
    if _are(drawn, Line2D):
        return _chart(axes, "line", _lines(axes))
    drawn = [artist for artist in drawn if not _is_grid_line(artist)]
    if _are(drawn, PathCollection):
        return _chart(axes, "scatter", _clouds(axes))
    if _are(drawn, Wedge):
        return _chart(axes, "pie", _wedges(axes))
    if _are(drawn, Rectangle):
        bars, is_turned = _bars(axes)
        return _chart(axes, "bar", bars, is_turned=is_turned)
    return _chart(axes, "unknown", [])


def _are(artists: Iterable[Any], *kinds: type[Any]) -> bool:
    return all(isinstance(artist, kinds) for artist in artists)


def _is_grid_line(artist: Any) -> bool:
    """Whether it is one upright or level stroke, as for a grid or a mark."""
    from matplotlib.lines import Line2D

    return isinstance(artist, Line2D) and _is_straight(artist)


def _is_straight(line: Any) -> bool:
    xs, ys = list(line.get_xdata()), list(line.get_ydata())
    return len(xs) == len(ys) == 2 and bool(xs[0] == xs[1] or ys[0] == ys[1])


def _chart(axes: Any, kind: str, elements: list[Any], *, is_turned: bool = False) -> Chart:
    """A chart; in a turned one, the values for x are drawn along y, and the labels say so."""
    chart: Chart = {"type": kind, "title": axes.get_title() or None}
    if kind not in ("pie", "unknown"):
        sides = (("x", axes.yaxis), ("y", axes.xaxis)) if is_turned else ()
        for side, axis in sides or (("x", axes.xaxis), ("y", axes.yaxis)):
            label = axis.get_label_text()
            chart[f"{side}_label"] = label or None
            chart[f"{side}_unit"] = _unit(label)
            if kind in ("line", "scatter"):
                chart |= _ticks(side, axis)
    return chart | {"elements": elements}


def _ticks(side: str, axis: Any) -> Chart:
    names, scale = _names(axis), _scale(axis)
    return {
        f"{side}_ticks": [_date(tick) if scale == "datetime" else tick for tick, _ in names],
        f"{side}_tick_labels": [label for _, label in names],
        f"{side}_scale": scale,
    }


def _unit(label: str) -> str | None:
    """The unit in brackets in a label: ``Time (s)`` is in ``s``."""
    found = _UNIT.search(label)
    return (found[1] or found[2] or None) if found else None


def _converter(axis: Any) -> str:
    """The name of the converter from the given values to places on the axis."""
    return type(axis.get_converter()).__name__ if axis.have_units() else ""


def _scale(axis: Any) -> str:
    converter = _converter(axis)
    if "Category" in converter:
        return "categorical"
    if "Date" in converter:
        return "datetime"
    name = axis.get_scale()
    return name if name in SCALES else "unknown"


def _value(axis: Any, number: Any) -> Any:
    """The value at a place on an axis: a number, a date in ISO 8601, or a category."""
    converter = _converter(axis)
    if "Category" in converter:
        names = {int(place): name for name, place in axis.units._mapping.items()}
        return names.get(round(float(number)), float(number))
    return _date(number) if "Date" in converter else _number(number)


def _date(number: Any) -> str:
    from matplotlib import dates

    return dates.num2date(float(number)).isoformat()  # pyright: ignore[reportUnknownMemberType] - untyped there


def _given(value: Any, axis: Any, place: Any) -> Any:
    """A coordinate as it was given to matplotlib, for JSON; else what its place stands for."""
    import numpy as np

    if isinstance(value, str):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]"))
    try:
        return _number(value)
    except (TypeError, ValueError):
        return _value(axis, place)


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _rounded(number: float) -> float:
    """Round off the last digits, which are noise; the larger the number, the fewer are kept."""
    exact = Decimal(str(number))
    if not exact.is_finite():
        return number
    with localcontext() as context:
        context.prec = max(1, 8 - exact.adjusted())
        return float(+exact)


def _wedges(axes: Any) -> list[Any]:
    return [
        {
            "label": str(wedge.get_label()),
            "angle": _rounded(abs(float(wedge.theta2) - float(wedge.theta1))),
            "radius": float(wedge.r),
        }
        for wedge in axes.patches
    ]


def _bars(axes: Any) -> tuple[list[Any], bool]:
    """The bars, and whether they lie."""
    from matplotlib.container import BarContainer

    containers: list[Any] = [found for found in axes.containers if isinstance(found, BarContainer)]
    elements: list[Any] = []
    is_turned = False
    for container in containers:
        is_turned = container.orientation == "horizontal"
        axis = axes.yaxis if is_turned else axes.xaxis
        names = _names(axis)
        group = _OWN_GROUP.sub(r"Group \1", str(container.get_label()))
        for bar in container.patches:
            middle = bar.get_x() + bar.get_width() / 2
            if is_turned:
                middle = bar.get_y() + bar.get_height() / 2
            elements.append(
                {
                    "label": _bar_label(axis, names, middle),
                    "group": group,
                    "value": _number(bar.get_width() if is_turned else bar.get_height()),
                }
            )
    return elements, is_turned


def _names(axis: Any) -> list[tuple[float, str]]:
    """The ticks of an axis, each with its label."""
    labels = [str(label.get_text()) for label in axis.get_ticklabels()]
    return list(zip(map(float, axis.get_ticklocs()), labels, strict=False))


def _bar_label(axis: Any, names: list[tuple[float, str]], middle: float) -> str:
    """The tick label below a bar, else its place."""
    named = [(abs(tick - middle), label) for tick, label in names]
    near = sorted((gap, label) for gap, label in named if label and gap < 0.5)
    if near:
        return near[0][1]
    return str(_value(axis, middle))


def _clouds(axes: Any) -> list[Any]:
    return [
        {
            "label": str(cloud.get_label()),
            "points": [
                [_value(axes.xaxis, x), _value(axes.yaxis, y)] for x, y in cloud.get_offsets()
            ],
        }
        for cloud in axes.collections
    ]


def _lines(axes: Any) -> list[Any]:
    return [
        {
            "label": _OWN_LINE.sub(r"Line \1", str(line.get_label())),
            "points": _points(axes, line),
        }
        for line in axes.lines
        if not _is_grid_line(line)
    ]


def _points(axes: Any, line: Any) -> list[list[Any]]:
    places = line.get_xydata()
    return [
        [_given(x, axes.xaxis, at_x), _given(y, axes.yaxis, at_y)]
        for x, y, (at_x, at_y) in zip(line.get_xdata(), line.get_ydata(), places, strict=False)
    ]


def _boxes(axes: Any, is_turned: bool) -> list[Any]:
    """Boxes of ``boxplot``: each is a closed line or patch with whiskers and a median."""
    outlines: list[Any] = [patch.get_path().vertices for patch in axes.patches]
    outlines += [line.get_xydata() for line in axes.lines if _is_closed(line.get_xydata())]
    strokes = [(line, *_sides(line.get_xydata(), is_turned)) for line in axes.lines]
    axis = axes.yaxis if is_turned else axes.xaxis
    names = _names(axis)
    boxes: list[Any] = []
    for outline in outlines:
        across, along = _sides(outline, is_turned)
        box = _box(strokes, (min(across), max(across)), (min(along), max(along)))
        if box is not None:
            middle = (min(across) + max(across)) / 2
            boxes.append({"label": _bar_label(axis, names, middle)} | box)
    return boxes


def _is_closed(outline: Any) -> bool:
    """Whether a line is the outline of something with four corners."""
    return len(outline) >= 5 and len({(float(x), float(y)) for x, y in outline}) == 4


def _sides(places: Any, is_turned: bool) -> tuple[list[float], list[float]]:
    """The places across the boxes and along them."""
    xs, ys = [_rounded(float(x)) for x, _ in places], [_rounded(float(y)) for _, y in places]
    return (ys, xs) if is_turned else (xs, ys)


def _box(
    strokes: list[tuple[Any, list[float], list[float]]],
    width: tuple[float, float],
    height: tuple[float, float],
) -> Chart | None:
    """Collect the lines of one box by their place across; ``None`` without whiskers or median."""
    middle, (low, high) = sum(width) / 2, height
    ends: list[float] = []
    medians: list[float] = []
    outliers: list[float] = []
    for line, across, along in strokes:
        if not across or abs(sum(across) / len(across) - middle) >= _NEAR:
            continue
        if line.get_linestyle() == "None":
            outliers += along
        elif len(across) == 2 and across[0] == across[1]:
            ends += along
        elif (
            len(across) == 2
            and low <= along[0] == along[1] <= high
            and abs(across[1] - across[0]) > width[1] - width[0] - _NEAR
        ):
            medians.append(along[0])
    if not medians or not ends:
        return None
    return {
        "min": min(ends),
        "first_quartile": low,
        "median": medians[0],
        "third_quartile": high,
        "max": max(ends),
        "outliers": outliers,
    }
