"""Draws the figures of the report as SVG, in colours that can be read on light and dark pages."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.benchmarks.contests import Figures, Ratio

_TEXT: Final = "#767880"
_FASTER: Final = "#2f83c5"
_SLOWER: Final = "#c8701c"
_WIDTH: Final = 860
_LABELS: Final = 440
"""Pixels at the left for the names of what is compared."""
_LONGEST: Final = 68
"""Characters of a name that fit there."""
_RIGHT: Final = 50
_PITCH: Final = 36
_TOP: Final = 26
_STEPS: Final = (1, 2, 5)

_CURVE_WIDTH: Final = 560
_CURVE_HEIGHT: Final = 190
_MARGIN: Final = 50


def ratios(measured: Sequence[Figures]) -> str:
    """The ratio to each peer with its interval, on a logarithmic scale; empty without peers."""
    found = [(figures, peer, figures.ratio(peer)) for figures in measured for peer in figures.peers]
    if not found:
        return ""
    ticks = _ticks([bound for _, _, ratio in found for bound in (ratio.low, ratio.high)])
    height = _TOP + _PITCH * len(found) + 22

    def across(value: float) -> float:
        share = math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])
        return _LABELS + share * (_WIDTH - _LABELS - _RIGHT)

    parts = [
        part
        for tick in ticks
        for part in (
            _line(across(tick), _TOP - 4, across(tick), height - 20, strong=tick == 1),
            _text(across(tick), height - 6, f"{tick:g}", "middle"),
        )
    ]
    parts.append(_text(across(1), 14, "slower than the peer →", "start", _SLOWER))
    for number, (figures, peer, ratio) in enumerate(found):
        y = _TOP + _PITCH * number + _PITCH / 2
        name = textwrap.shorten(figures.row.name.replace("`", ""), _LONGEST, placeholder=" …")
        parts.append(_text(0, y - 3, name))
        parts.append(_text(12, y + 12, f"beside {peer}", size=11))
        parts += _interval(ratio, across, y)
    return _svg(_WIDTH, height, "Ratios to the peers, with intervals of 95 %", parts)


def _interval(ratio: Ratio, across: Callable[[float], float], y: float) -> list[str]:
    colour = _FASTER if ratio.value <= 1 else _SLOWER
    low, middle, high = (across(value) for value in (ratio.low, ratio.value, ratio.high))
    return [
        f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{colour}" stroke-width="3"/>',
        f'<circle cx="{middle:.1f}" cy="{y}" r="4.5" fill="{colour}"/>',
        _text(high + 8, y + 4, f"{ratio.value:.2f}", colour=colour),
    ]


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers on both sides of all values and of 1."""
    low, high = min(*values, 0.9), max(*values, 1.1)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    round_ones = [step * 10.0**power for power in range(first, last + 1) for step in _STEPS]
    start = max(index for index, tick in enumerate(round_ones) if tick <= low)
    end = min(index for index, tick in enumerate(round_ones) if tick >= high)
    return round_ones[start : end + 1]


def curve(name: str, unit: str, costs: Sequence[tuple[int, float]]) -> str:
    """What each size costs, in ``unit``; the sizes are on a logarithmic scale."""
    first, last = math.log(costs[0][0]), math.log(costs[-1][0])
    most = max(cost for _, cost in costs) or 1.0
    bottom = _CURVE_HEIGHT - 36
    points = [
        (
            _MARGIN + (math.log(size) - first) / (last - first) * (_CURVE_WIDTH - 2 * _MARGIN),
            bottom - cost / most * (bottom - 44),
        )
        for size, cost in costs
    ]
    parts = [
        _text(0, 14, unit),
        _line(_MARGIN - 20, bottom, _CURVE_WIDTH - _MARGIN + 20, bottom, strong=True),
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none"'
        f' stroke="{_FASTER}" stroke-width="2"/>',
        _text(_CURVE_WIDTH / 2, _CURVE_HEIGHT - 4, name, "middle"),
    ]
    for (x, y), (size, cost) in zip(points, costs, strict=True):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_FASTER}"/>')
        parts.append(_text(x, y - 9, f"{cost:,.2f}", "middle", _FASTER))
        parts.append(_text(x, bottom + 16, f"{size:,}", "middle"))
    return _svg(_CURVE_WIDTH, _CURVE_HEIGHT, f"{name}: {unit}", parts)


def _line(x: float, y: float, to_x: float, to_y: float, *, strong: bool) -> str:
    opacity = 0.9 if strong else 0.3
    return (
        f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{_TEXT}" opacity="{opacity}"/>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", colour: str = _TEXT, size: int = 12
) -> str:
    more = "" if anchor == "start" else f' text-anchor="{anchor}"'
    more += "" if size == 12 else f' font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{escape(text)}</text>'


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="sans-serif" font-size="12"'
            ' role="img">',
            f"<title>{escape(title)}</title>",
            *parts,
            "</svg>\n",
        ]
    )
