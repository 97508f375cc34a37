"""Run benchmarks: ``python -m tests.benchmarks``.

Without arguments, compares the engine with other ways to do the same, in the groups that are quick,
and writes their sections of the report.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.benchmarks import (
    against,
    capacity,
    chain,
    comparison,
    cycles,
    growth,
    hardening,
    lifecycle,
    profile,
    report,
)
from tests.benchmarks.groups import DEFAULT, GROUPS
from tests.benchmarks.harness import running_engine

SINGLE = {
    "lifecycle": lifecycle.run,
    "capacity": capacity.run,
    "chain": chain.run,
    "cycles": cycles.run,
    "hardening": hardening.run,
}
"""Benchmarks without peers, which print their figures only."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *SINGLE], help="single benchmarks")
    parser.add_argument(
        "--group", action="append", choices=["all", *GROUPS], help="a group to measure; repeatable"
    )
    parser.add_argument("--growth", action="store_true", help="measure curves of growth")
    parser.add_argument(
        "--against",
        metavar="REF",
        help="measure this code beside a commit; fails when it is slower",
    )
    parser.add_argument(
        "--profile", metavar="ROW", help="draw a flame graph of a row, by a part of its name"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the rounds, such as 0.1")
    parser.add_argument("--report", type=Path, default=report.PAGE, help="Markdown to write")
    parser.add_argument("--json", type=Path, default=report.FIGURES, help="JSON to write")
    arguments = parser.parse_args()
    groups: list[str] = arguments.group or []
    if "all" in groups:
        groups = list(GROUPS)

    if arguments.profile:
        print(f"wrote {profile.run(arguments.profile, arguments.share)}")
    elif arguments.against:
        sys.exit(not against.run(arguments.against, groups, arguments.share))
    elif arguments.names:
        _run_single(arguments.names)
    elif arguments.growth:
        growth.run(arguments.report, arguments.json)
    else:
        comparison.run(groups or DEFAULT, arguments.share, arguments.report, arguments.json)


def _run_single(names: list[str]) -> None:
    with running_engine() as engine:
        for name in names:
            print(f"\n{name}", flush=True)
            SINGLE[name](engine)


main()
