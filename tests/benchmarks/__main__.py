"""Run benchmarks: ``python -m tests.benchmarks [name ...]``; ``all`` for every one of them.

Without a name, compares the engine with other ways to do the same, and writes the report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks import (
    branches,
    capacity,
    chain,
    comparison,
    create,
    cycles,
    echo,
    hardening,
    kernels,
    lifecycle,
    listing,
    magics,
    proxies,
    snapshot,
    streaming,
    transfer,
)
from tests.benchmarks.harness import running_engine

BENCHMARKS = {
    "create": create.run,
    "listing": listing.run,
    "transfer": transfer.run,
    "streaming": streaming.run,
    "echo": echo.run,
    "lifecycle": lifecycle.run,
    "capacity": capacity.run,
    "snapshot": snapshot.run,
    "chain": chain.run,
    "cycles": cycles.run,
    "hardening": hardening.run,
    "kernels": kernels.run,
    "magics": magics.run,
    "proxies": proxies.run,
    "branches": branches.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: all, {', '.join(BENCHMARKS)}")
    parser.add_argument("--share", type=float, default=1.0, help="of the rounds of the comparison")
    parser.add_argument("--report", type=Path, default=comparison.REPORT, help="Markdown to write")
    parser.add_argument("--json", type=Path, default=comparison.FIGURES, help="JSON to write")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {*BENCHMARKS, "all"}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")

    with running_engine() as engine:
        if not arguments.names:
            comparison.run(engine, arguments.share, arguments.report, arguments.json)
            return
        for name in BENCHMARKS if "all" in arguments.names else arguments.names:
            print(f"\n{name}", flush=True)
            BENCHMARKS[name](engine)


main()
