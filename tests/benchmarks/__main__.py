"""Run benchmarks, by name or all: ``python -m tests.benchmarks [name ...]``."""

from __future__ import annotations

import argparse

from tests.benchmarks import (
    branches,
    capacity,
    chain,
    create,
    cycles,
    echo,
    hardening,
    kernels,
    lifecycle,
    listing,
    magics,
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
    "branches": branches.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(BENCHMARKS)} (default all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")

    with running_engine() as engine:
        for name in arguments.names or BENCHMARKS:
            print(f"\n{name}", flush=True)
            BENCHMARKS[name](engine)


main()
