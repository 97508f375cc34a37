"""Tells which sandboxes have used the processor, with one reading for all while none has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

LITTLE_TCP: Final = 2 << 20
"""Bytes: a 32nd of the smallest usual memory limit."""


class Counters(Protocol):
    """The counters of a control group; ``None`` for what it does not count."""

    def work_ns(self) -> int | None:
        """Processor time so far, in nanoseconds. Raises ``OSError`` and ``ValueError``."""
        ...

    def tcp_bytes(self) -> int | None:
        """Memory of TCP that counts apart from the other. Raises as ``work_ns`` does."""
        ...


class Counted(Counters, Protocol):
    """One sandbox: a ``Cage``."""

    @property
    def together(self) -> tuple[str, Counters]:
        """Name and counters of the group of all sandboxes of the same engine."""
        ...


class Activity(NamedTuple):
    """What a sandbox has used so far, at one moment."""

    work_ns: int | None
    """Processor time so far; two equal ones mean that no process ran in between."""
    tcp_bytes: int
    """Memory of TCP, or a small number that it is not above."""


class _Group(NamedTuple):
    counters: Counters
    work_ns: int | None
    tcp_bytes: int

    @classmethod
    def of(cls, counters: Counters) -> _Group:
        return cls(counters, _work_ns(counters), _tcp_bytes(counters))


class ActivityReader:
    """Reads the counters of many sandboxes again and again.

    The group of all sandboxes counts what any of them uses. While its processor time stands still,
    that of each is what it was before.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._work: dict[Counted, int | None] = {}

    def are_still(self) -> bool:
        """Whether nothing has run in the sandboxes since they were ``read``; blocking.

        And whether all of them together have little memory of TCP. One reading, however many
        there are; false where processor time is not counted.
        """
        return all(
            group.work_ns is not None
            and group.work_ns == _work_ns(group.counters)
            and _tcp_bytes(group.counters) <= LITTLE_TCP
            for group in self._groups.values()
        )

    def read(self, cages: Iterable[Counted]) -> dict[Counted, Activity]:
        """Read the counters of all; blocking. What cannot be read is not counted."""
        earlier, self._groups = self._groups, {}
        known, self._work = self._work, {}
        found: dict[Counted, Activity] = {}
        for cage in cages:
            name, counters = cage.together
            group = self._groups.get(name)
            if group is None:  # before those in it, so that nothing is missed
                group = self._groups[name] = _Group.of(counters)
            before = earlier.get(name)
            is_still = before is not None and before.work_ns == group.work_ns
            is_known = is_still and group.work_ns is not None and cage in known
            work = known[cage] if is_known else _work_ns(cage)
            self._work[cage] = work
            is_little = group.tcp_bytes <= LITTLE_TCP
            found[cage] = Activity(work, group.tcp_bytes if is_little else _tcp_bytes(cage))
        return found


def _work_ns(counters: Counters) -> int | None:
    try:
        return counters.work_ns()
    except (OSError, ValueError):  # it has ended
        return None


def _tcp_bytes(counters: Counters) -> int:
    try:
        return counters.tcp_bytes() or 0
    except (OSError, ValueError):
        return 0
