"""Keeps the last results in ``last_run.json``; run as a program, writes them into the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.integrations.differences import differences_of
from tests.integrations.programs import INTEGRATIONS, Integration
from tests.tiers.rows import MANY, ONE, ROOT, TIERS

PAGE: Final = Path(__file__).parents[2] / "docs" / "use-it-from.md"
LAST_RUN: Final = Path(__file__).with_name("last_run.json")

_START: Final = "## What was tried\n"
_END: Final = "\n## Host names of ports\n"

_HEAD: Final = """\
`make test-integrations` installs each of these, unmodified, and runs checks of it with an engine of
each kind that [what works where](tiers.md) names. It fails if a check fails that this page does not
name, or if one passes that it does name. The checks of inspect-ai are those that it has for
sandboxes of any provider; those of harbor are ten tasks with Dockerfiles, each with its oracle and
with its nop. The last results, by checks that pass:
"""
_FAILING: Final = """\
These checks fail. With `landlock` and `none`, a client's files reach a sandbox under any path, but
programs in it find them only below `~` and `$SBX_ROOT`: what they open by an absolute path is not
there.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a program found with an engine: how many checks it has, and which failed."""

    checks: int
    failed: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.checks - len(self.failed)} of {self.checks}"


def write(
    cells: Mapping[tuple[Integration, str], Cell], versions: Mapping[Integration, dict[str, str]]
) -> None:
    """Keep results by program and tier in place of those of before, and renew the page."""
    kept = last_run()
    for (integration, tier), cell in cells.items():
        program = kept.setdefault(integration.name, {"tiers": {}})
        program["versions"] = versions[integration]
        program["tiers"][tier] = {"checks": cell.checks, "failed": list(cell.failed)}
    LAST_RUN.write_text(json.dumps(kept, indent=2) + "\n")
    PAGE.write_text(page())


def last_run() -> dict[str, Any]:
    """By program its versions, and by tier its checks and those that failed."""
    return json.loads(LAST_RUN.read_text()) if LAST_RUN.exists() else {}


def page() -> str:
    """The text of the page, with its part that is written by hand."""
    before, _, rest = PAGE.read_text().partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}{_section()}{_END}{after}"


def _section() -> str:
    """The tables of the results, and of the checks that fail."""
    kept = {each: found for each in INTEGRATIONS if (found := last_run().get(each.name))}
    return "\n".join(
        [
            "",
            _HEAD,
            f"| Program | Its e2b packages | {' | '.join(TIERS.values())} |",
            "|---|---|" + "---|" * len(TIERS),
            *(_result(each, found) for each, found in kept.items()),
            "",
            _FAILING,
            "| Program | Checks | Where | Why |",
            "|---|---|---|---|",
            *(line for each, found in kept.items() for line in _failures(each, found)),
            "",
        ]
    )


def _result(integration: Integration, found: dict[str, Any]) -> str:
    names = integration.title.split(", ")
    own = [f"{name} {found['versions'][name]}" for name in names]
    brought = [f"{name} {it}" for name, it in found["versions"].items() if name not in names]
    cells = [Cell(**found["tiers"][tier]).text for tier in TIERS]
    return f"| {' | '.join([', '.join(own), ', '.join(brought), *cells])} |"


def _failures(integration: Integration, found: dict[str, Any]) -> list[str]:
    """A row for each reason, with the checks that it explains in the same tiers."""
    tiers: dict[tuple[str, str], list[str]] = {}  # by check and reason
    for tier in TIERS:
        for check, why in differences_of(integration.name, tier).items():
            tiers.setdefault((check, why), []).append(tier)
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (check, why), where in tiers.items():
        rows.setdefault((why, tuple(where)), []).append(check)
    total = max(cell["checks"] for cell in found["tiers"].values())
    name = integration.packages[0].partition("[")[0]
    return [
        f"| {name} | {_names(checks, total)} | {_places(where)} | {why} |"
        for (why, where), checks in rows.items()
    ]


def _names(checks: list[str], total: int) -> str:
    return "all" if len(checks) == total else ", ".join(f"`{check}`" for check in checks)


def _places(tiers: tuple[str, ...]) -> str:
    if set(tiers) == set(TIERS):
        return "everywhere"
    return (
        "`namespaces`" if tiers == (ROOT, MANY, ONE) else ", ".join(TIERS[tier] for tier in tiers)
    )


if __name__ == "__main__":
    PAGE.write_text(page())
