"""Measures rows of a comparison: ours and its peers take turns in one run, in shuffled order."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.benchmarks.harness import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.benchmarks.harness import EngineClient

OURS: Final = "sbx-jupyter"
_WARM_UP: Final = 3
_RESAMPLES: Final = 2000

Contestants = dict[str, "Callable[[], float]"]
"""By name, what does the work once and returns the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is measured. ``open`` gives ``OURS`` and each peer that this machine has."""

    name: str
    goal: str
    """The ratio to the peer that is aimed at, as text."""
    rounds: int
    open: Callable[[EngineClient], AbstractContextManager[Contestants]]


class Ratio(NamedTuple):
    """The ratio of two medians, with the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float


class Figures(NamedTuple):
    """The seconds of each contestant of a row, one per round."""

    row: Row
    seconds: dict[str, list[float]]

    @property
    def peers(self) -> list[str]:
        return [name for name in self.seconds if name != OURS]

    def ratio(self, peer: str) -> Ratio:
        return ratio(self.seconds[OURS], self.seconds[peer])

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.row.name,
            "goal": self.row.goal,
            "seconds": self.seconds,
            "medians": {name: statistics.median(taken) for name, taken in self.seconds.items()},
            "p99": {name: percentile(taken, 0.99) for name, taken in self.seconds.items()},
            "ratios": {peer: self.ratio(peer)._asdict() for peer in self.peers},
        }


def measure(row: Row, engine: EngineClient, *, share: float = 1.0) -> Figures:
    """Measure a row, with ``share`` of its usual number of rounds."""
    with row.open(engine) as contestants:
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        names = list(contestants)
        for number in range(-_WARM_UP, max(1, round(row.rounds * share))):
            random.shuffle(names)
            for name in names:
                taken = contestants[name]()
                if number >= 0:
                    seconds[name].append(taken)
    return Figures(row, seconds)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The ratio of the medians; its interval is found by drawing rounds again at random."""
    chance = random.Random(1)
    rounds = range(len(ours))
    found: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = chance.choices(rounds, k=len(rounds))
        mine = statistics.median([ours[number] for number in drawn])
        found.append(mine / statistics.median([theirs[number] for number in drawn]))
    return Ratio(
        statistics.median(ours) / statistics.median(theirs),
        percentile(found, 0.025),
        percentile(found, 0.975),
    )
