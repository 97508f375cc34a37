"""The table of costs, ``costs.json``: what common requests cost when it was last renewed.

Each of its parts is named by what the counts in it depend on. What another Python or another system
would count is not in a part, so that nothing is compared with it: ``known`` says so.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = Path(__file__).with_name("costs.json")
RENEW: Final = "SBX_RENEW_COSTS=1 .venv/bin/python -m pytest tests/benchmarks"
"""The command that renews what this Python and this machine count; as root."""

Costs = dict[str, dict[str, Any]]
"""By request, then by what is counted. Parts of a count, such as each system call, are a table."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much more than recorded is no failure: a share, and some units."""

    share: float
    units: int = 0

    def most(self, recorded: int) -> int:
        return int(recorded * (1 + self.share)) + self.units


def known(part: str) -> bool:
    """Whether the table has a part, or is being renewed."""
    return part in _read() or _renews()


def check(part: str, found: Costs, limits: Mapping[str, Limit]) -> None:
    """Compare ``found`` with a part of the table, or renew that when asked to.

    ``limits`` are by what is counted; one by request and count, as ``exec: calls``, goes first.

    Raises ``AssertionError`` that names each count above its limit, what grew in it, and the
    command that accepts it.
    """
    if _renews():
        table = _read() | {part: found}
        FILE.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")
    recorded = _read()[part]
    unknown = sorted(found.keys() ^ recorded.keys())
    assert not unknown, f"not recorded, or no longer measured: {unknown}; {RENEW}"
    grown = [
        f"{request}: {what}: {count}, at most {most}, {recorded[request][what]} recorded"
        + _details(found[request], recorded[request], what)
        for request, counts in found.items()
        for what, count in counts.items()
        if (limit := limits.get(f"{request}: {what}", limits.get(what))) is not None
        and count > (most := limit.most(recorded[request][what]))
    ]
    assert not grown, "\n".join(
        [f"What requests cost has grown ({part}):", *grown, f"To accept it, as root: {RENEW}"]
    )


def _details(found: dict[str, Any], recorded: dict[str, Any], what: str) -> str:
    """Which of the parts of a count are not as recorded, where these are known."""
    ours, theirs = found.get(f"{what} by name", {}), recorded.get(f"{what} by name", {})
    changed = [
        f"{name} {ours.get(name, 0)} ({theirs.get(name, 0)})"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name, 0) != theirs.get(name, 0)
    ]
    return f"; {', '.join(changed)}" if changed else ""


def _read() -> dict[str, Costs]:
    return json.loads(FILE.read_text())


def _renews() -> bool:
    return "SBX_RENEW_COSTS" in os.environ
