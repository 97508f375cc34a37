"""Measures rows of a comparison: ours and its peers take turns in one run, in shuffled order."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.benchmarks.goals import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.benchmarks.goals import Goal
    from tests.benchmarks.harness import EngineClient

OURS: Final = "sbx-jupyter"
_WARM_UP: Final = 3
_RESAMPLES: Final = 2000

Contestants = dict[str, "Callable[[], float]"]
"""By name, what does the work once and returns what is measured: the seconds that it took."""


class Unit(NamedTuple):
    """How measured values are shown: ``value * factor`` with ``name`` behind it."""

    name: str
    factor: float


MILLISECONDS: Final = Unit("ms", 1e3)
MICROSECONDS: Final = Unit("µs", 1e6)
MEGABYTES: Final = Unit("MB", 1e-6)
PERCENT: Final = Unit("%", 100)
_TIMES: Final = (MILLISECONDS, MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is measured. ``open`` gives ``OURS`` and each peer that this machine has."""

    name: str
    rounds: int
    open: Callable[[EngineClient], AbstractContextManager[Contestants]]
    goals: tuple[Goal, ...] = ()
    reason: str = ""
    """What stands in the way where a goal is missed: a sentence for the report."""
    unit: Unit = MILLISECONDS
    warm_up: int = _WARM_UP
    unavailable: Callable[[], str] = str
    """Says why this machine cannot measure it; an empty text if it can."""


class Absent(NamedTuple):
    """A row that this machine cannot measure, and why."""

    row: Row
    reason: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.row.name, "not measured": self.reason}


class Ratio(NamedTuple):
    """The ratio of two medians, with the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The values of each contestant of a row, one per round, in seconds or bytes."""

    row: Row
    values: dict[str, list[float]]
    _ratios: dict[str, Ratio] = field(default_factory=dict[str, Ratio])

    @property
    def peers(self) -> list[str]:
        return [name for name in self.values if name != OURS]

    @property
    def rounds(self) -> int:
        """How often each contestant was measured."""
        return len(self.values[OURS])

    def ratio(self, peer: str) -> Ratio:
        if peer not in self._ratios:
            self._ratios[peer] = ratio(self.values[OURS], self.values[peer])
        return self._ratios[peer]

    def is_met(self, goal: Goal) -> bool:
        """Whether a goal of the row is met; its peer must have been measured."""
        return goal.measure(self.values[OURS], self.values[goal.peer or OURS]) <= goal.limit

    def goals(self, peer: str) -> list[Goal]:
        """The goals of the row that name this peer."""
        return [goal for goal in self.row.goals if goal.peer == peer]

    @property
    def missed(self) -> list[Goal]:
        """The goals that are missed, of those whose peer was measured."""
        measured = (goal for goal in self.row.goals if (goal.peer or OURS) in self.values)
        return [goal for goal in measured if not self.is_met(goal)]

    def to_json(self) -> dict[str, object]:
        values = self.values.items()
        return {
            "name": self.row.name,
            "unit": "seconds" if self.row.unit in _TIMES else self.row.unit.name,
            "rounds": self.rounds,
            "goals": [{"text": goal.text, "peer": goal.peer} for goal in self.row.goals],
            "missed": [goal.text for goal in self.missed],
            "values": self.values,
            "medians": {name: statistics.median(taken) for name, taken in values},
            "p99": {name: percentile(taken, 0.99) for name, taken in values},
            "ratios": {peer: self.ratio(peer)._asdict() for peer in self.peers},
        }


def measure(row: Row, engine: EngineClient, *, share: float = 1.0) -> Figures:
    """Measure a row, with ``share`` of its usual number of rounds."""
    with row.open(engine) as contestants:
        values: dict[str, list[float]] = {name: [] for name in contestants}
        names = list(contestants)
        for number in range(-row.warm_up, max(1, round(row.rounds * share))):
            random.shuffle(names)
            for name in names:
                taken = contestants[name]()
                if number >= 0:
                    values[name].append(taken)
    return Figures(row, values)


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
