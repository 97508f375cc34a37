"""Run the programs in ``clients``, each with its packages in an environment of its own.

Give names to run only some. Environments are kept in ``.integrations`` of the checkout, so that
the next run installs nothing. ``SBX_TEST_TIER`` chooses one engine, by a name of
``tests/tiers/rows.py``; without it, each program runs with each of them. A program passes with an
engine if those of its checks fail that ``differences`` names, and no others. ``--record`` writes
the results into ``docs/use-it-from.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.engine_process import TIER, EngineProcess
from tests.integrations import record
from tests.integrations.differences import unexpected
from tests.integrations.programs import INTEGRATIONS, Integration, environment, install, versions
from tests.integrations.record import Cell
from tests.tiers.engines import engine_process_of
from tests.tiers.rows import TIERS

RUN_SECONDS: Final = 900


def main(arguments: list[str]) -> int:
    """Run all or the named integrations; the exit status is 1 if one did not do as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.integrations")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--record", action="store_true")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - {each.name for each in INTEGRATIONS}:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    integrations = [each for each in INTEGRATIONS if not chosen.names or each.name in chosen.names]
    found: list[tuple[Integration, str, Cell | str]] = []
    for tier in [TIER] if TIER else TIERS:
        with engine_process_of(tier) as engine:
            for integration in integrations:
                print(f"== {integration.name}, {tier}", flush=True)
                found.append((integration, tier, attempt(integration, engine)))
    print()
    for integration, tier, result in found:
        print(f"{integration.name:16} {tier:10} {verdict(integration, tier, result)}")
    if chosen.record:
        cells = {
            (integration, tier): cell for integration, tier, cell in found if isinstance(cell, Cell)
        }
        record.write(cells, {each: versions(each) for each in {each for each, _ in cells}})
    return int(any(wrong(*each) for each in found))


def attempt(integration: Integration, engine: EngineProcess) -> Cell | str:
    """Install and run one integration; its checks, or why it did not run to its end."""
    with tempfile.TemporaryDirectory() as made:
        checks = Path(made) / "checks"
        try:
            done = subprocess.run(
                install(integration),
                env=environment(engine.url, engine.key, checks),
                cwd=integration.folder,
                stdin=subprocess.DEVNULL,
                timeout=RUN_SECONDS,
                check=False,
            )
        except subprocess.CalledProcessError as error:
            return f"not installed: {error.cmd[0]}: exit status {error.returncode}"
        except FileNotFoundError as error:
            return f"not installed: there is no {error.filename}"
        except subprocess.TimeoutExpired as error:
            return f"not done after {error.timeout:.0f} seconds"
        if done.returncode != 0 or not checks.exists():
            return f"ended with {done.returncode}, outside of its checks"
        results = dict(json.loads(line) for line in checks.read_text().splitlines())
    return Cell(len(results), tuple(name for name, failure in results.items() if failure))


def wrong(integration: Integration, tier: str, result: Cell | str) -> list[str]:
    """What is not as ``differences`` says."""
    return (
        [result] if isinstance(result, str) else unexpected(integration.name, tier, result.failed)
    )


def verdict(integration: Integration, tier: str, result: Cell | str) -> str:
    """A line for a person."""
    found = wrong(integration, tier, result)
    count = "" if isinstance(result, str) else f"{result.text}, "
    return count + ("NOT as expected: " + "; ".join(found) if found else "as expected")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
