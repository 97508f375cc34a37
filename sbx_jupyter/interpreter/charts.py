"""Reads back from a matplotlib figure what it shows (interface 5.4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES: Final = frozenset({"linear", "log", "symlog", "logit", "function", "functionlog", "asinh"})

_NEAR: Final = 1e-9

Chart = dict[str, Any]


def from_figure(figure: Any) -> Chart | None:
    """The chart of a figure, a ``superchart`` for several axes, ``None`` for an empty one."""
    shown = [chart for axes in figure.axes if (chart := from_axes(axes)) is not None]
    if not shown:
        return None
    if len(shown) == 1:
        return shown[0]
    title = figure.get_suptitle() or None
    return {"type": "superchart", "title": title, "elements": shown}


def from_axes(axes: Any) -> Chart | None:
    """The chart of one pair of axes; ``None`` when nothing is drawn in them."""
    if not axes.has_data():
        return None
    readers: list[tuple[str, Callable[[Any], list[Any]]]] = [
        ("pie", _wedges),
        ("box_and_whisker", _boxes),
        ("bar", _bars),
        ("scatter", _clouds),
        ("line", _lines),
    ]
    for kind, read in readers:
        if elements := read(axes):
            return _common(axes, kind) | {"elements": elements}
    return {"type": "unknown", "title": axes.get_title() or None, "elements": []}


def _common(axes: Any, kind: str) -> Chart:
    chart: Chart = {"type": kind, "title": axes.get_title() or None}
    if kind == "pie":
        return chart
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        label = axis.get_label_text()
        chart[f"{side}_label"] = label or None
        chart[f"{side}_unit"] = _unit(label)
        if kind in ("line", "scatter"):
            chart[f"{side}_ticks"] = [_value(axis, tick) for tick in axis.get_ticklocs()]
            chart[f"{side}_tick_labels"] = _tick_labels(axis)
            chart[f"{side}_scale"] = _scale(axis)
    return chart


def _tick_labels(axis: Any) -> list[str]:
    return [str(label) for label in axis.get_major_formatter().format_ticks(axis.get_ticklocs())]


def _unit(label: str) -> str | None:
    """What stands in brackets at the end: ``Time (s)`` is in ``s``."""
    for opening, closing in (("(", ")"), ("[", "]")):
        head, found, rest = label.strip().rpartition(opening)
        if found and head and rest.endswith(closing):
            return rest[:-1] or None
    return None


def _scale(axis: Any) -> str:
    converter = type(axis.get_converter()).__name__ if axis.have_units() else ""
    if "Category" in converter:
        return "categorical"
    if "Date" in converter or "Period" in converter:
        return "datetime"
    name = axis.get_scale()
    return name if name in SCALES else "unknown"


def _value(axis: Any, number: Any) -> Any:
    """A coordinate as it was given: a number, a date in ISO 8601, or a category."""
    scale = _scale(axis)
    if scale == "categorical":
        names = {int(place): name for name, place in axis.units._mapping.items()}
        return names.get(round(float(number)), float(number))
    if scale == "datetime":
        from matplotlib import dates

        date = dates.num2date(float(number))  # pyright: ignore[reportUnknownMemberType] - untyped there
        return date.isoformat()
    return _number(number)


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _wedges(axes: Any) -> list[Any]:
    from matplotlib.patches import Wedge

    wedges: list[Any] = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    labels = [text.get_text() for text in axes.texts]
    return [
        {
            "label": _shown(wedge) or (labels[place] if place < len(labels) else ""),
            "angle": float(wedge.theta2 - wedge.theta1),
            "radius": float(wedge.r),
        }
        for place, wedge in enumerate(wedges)
    ]


def _bars(axes: Any) -> list[Any]:
    from matplotlib.container import BarContainer

    containers: list[Any] = [found for found in axes.containers if isinstance(found, BarContainer)]
    elements: list[Any] = []
    for place, container in enumerate(containers):
        upright = getattr(container, "orientation", "vertical") != "horizontal"
        axis = axes.xaxis if upright else axes.yaxis
        group = container.get_label()
        for bar in container.patches:
            middle = bar.get_x() + bar.get_width() / 2
            if not upright:
                middle = bar.get_y() + bar.get_height() / 2
            elements.append(
                {
                    "label": _bar_label(axis, middle),
                    "group": group if group and not group.startswith("_") else f"Group {place}",
                    "value": _number(bar.get_height() if upright else bar.get_width()),
                }
            )
    return elements


def _bar_label(axis: Any, middle: float) -> str:
    """The tick label below a bar, else its place."""
    ticks, labels = axis.get_ticklocs(), _tick_labels(axis)
    named = [(abs(tick - middle), label) for tick, label in zip(ticks, labels, strict=True)]
    near = sorted((gap, label) for gap, label in named if label and gap < 0.5)
    if near:
        return near[0][1]
    return str(_value(axis, middle))


def _clouds(axes: Any) -> list[Any]:
    from matplotlib.collections import PathCollection

    clouds: list[Any] = [found for found in axes.collections if isinstance(found, PathCollection)]
    return [
        {"label": _shown(cloud), "points": _points(axes, *cloud.get_offsets().T)}
        for cloud in clouds
        if len(cloud.get_offsets())
    ]


def _lines(axes: Any) -> list[Any]:
    lines: list[Any] = axes.get_lines()
    return [
        {"label": _shown(line), "points": _points(axes, *line.get_xydata().T)}
        for line in lines
        if len(line.get_xydata())
    ]


def _points(axes: Any, xs: Any, ys: Any) -> list[list[Any]]:
    return [[_value(axes.xaxis, x), _value(axes.yaxis, y)] for x, y in zip(xs, ys, strict=True)]


def _shown(artist: Any) -> str:
    """The label that a legend would show; matplotlib's own ones begin with an underscore."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _boxes(axes: Any) -> list[Any]:
    """Boxes of ``boxplot``: each is a closed line or patch with whiskers and a median."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch

    boxes: list[tuple[float, float, float, float]] = []
    children: list[Any] = axes.get_children()
    for artist in children:
        if isinstance(artist, PathPatch):
            outline: Any = artist.get_path().vertices
        elif isinstance(artist, Line2D):
            outline = artist.get_xydata()
        else:
            continue
        xs, ys = outline.T
        if len(xs) >= 5 and len({(float(x), float(y)) for x, y in zip(xs, ys, strict=True)}) == 4:
            boxes.append((min(xs), max(xs), min(ys), max(ys)))
    return [found for box in boxes if (found := _box(axes, *box)) is not None]


def _box(axes: Any, left: float, right: float, low: float, high: float) -> Any:
    """What belongs to one upright box, by its horizontal place."""
    middle = (left + right) / 2
    ends: list[float] = []
    medians: list[float] = []
    outliers: list[float] = []
    for line in axes.get_lines():
        xs, ys = [float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()]
        centred = bool(xs) and abs(sum(xs) / len(xs) - middle) < _NEAR
        if not centred:
            continue
        if line.get_linestyle() == "None":
            outliers += ys
        elif len(xs) == 2 and xs[0] == xs[1]:
            ends += ys
        elif (
            len(xs) == 2 and low <= ys[0] == ys[1] <= high and xs[1] - xs[0] > right - left - _NEAR
        ):
            medians.append(ys[0])
    if not medians or not ends:
        return None
    return {
        "label": _bar_label(axes.xaxis, middle),
        "min": min(ends),
        "first_quartile": float(low),
        "median": medians[0],
        "third_quartile": float(high),
        "max": max(ends),
        "outliers": outliers,
    }
