"""What a figure of a benchmark is to reach: a ratio to a peer, a difference, or a value."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Goal(NamedTuple):
    """``measure`` takes the values of ours and of the peer; its result is at most ``limit``."""

    text: str
    peer: str
    """The peer that the goal compares with; empty for a goal about ours alone."""
    limit: float
    measure: Callable[[Sequence[float], Sequence[float]], float]


def ratio_to(peer: str, limit: float) -> Goal:
    """The median of ours over that of the peer."""
    return Goal(f"{limit}", peer, limit, lambda o, t: statistics.median(o) / statistics.median(t))


def late_ratio_to(peer: str, limit: float) -> Goal:
    """The p99 of ours over the median of the peer."""
    return Goal(
        f"p99 {limit}", peer, limit, lambda o, t: percentile(o, 0.99) / statistics.median(t)
    )


def more_than(peer: str, seconds: float) -> Goal:
    """How much longer the median of ours takes than that of the peer."""
    return Goal(
        f"{seconds * 1e3:g} ms more",
        peer,
        seconds,
        lambda o, t: statistics.median(o) - statistics.median(t),
    )


def at_most(limit: float, text: str) -> Goal:
    """The median of ours, in seconds or bytes."""
    return Goal(text, "", limit, lambda o, _: statistics.median(o))


def late_at_most(limit: float, text: str) -> Goal:
    """The p99 of ours, in seconds or bytes."""
    return Goal(f"p99 {text}", "", limit, lambda o, _: percentile(o, 0.99))


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
