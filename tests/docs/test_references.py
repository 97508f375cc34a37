"""Test that each mention of a part of the interface leads to a part of ``docs/interface.md``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.docs.contract import Contract, Reference, references, references_in_file
from tests.docs.contract import references_within as within

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "interface.md"
PLACES = {"sbx_jupyter": "*.py", "tests": "*.py", "labextension/src": "*.ts*", "docs": "*.md"}
MADE_UP = {Path(__file__)}
"""Files with references that lead nowhere, on purpose."""


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract(PAGE.read_text())


@cache
def references_in(place: str) -> list[tuple[Path, Reference]]:
    """Each reference in the files of a place, with its file."""
    sources = [path for path in sorted((ROOT / place).rglob(PLACES[place])) if path not in MADE_UP]
    return [(path, reference) for path in sources for reference in references_in_file(path)]


@pytest.mark.parametrize("place", PLACES)
def test_every_reference_leads_somewhere(place: str, contract: Contract) -> None:
    lost = [
        f"{path.relative_to(ROOT)}:{reference.line}: interface {reference.name}"
        for path, reference in references_in(place)
        if not contract.has(reference.name)
    ]

    assert not lost, "not in docs/interface.md:\n" + "\n".join(lost)


def test_the_page_refers_to_sections_that_it_has(contract: Contract) -> None:
    lost = [
        f"docs/interface.md:{reference.line}: {reference.name}"
        for reference in within(PAGE.read_text())
        if not contract.has(reference.name)
    ]

    assert not lost, "\n".join(lost)


def test_the_places_are_searched() -> None:
    assert sum(len(references_in(place)) for place in ("sbx_jupyter", "tests")) > 200


def test_made_up_references_are_told() -> None:
    contract = Contract(
        "## 3. Runtime\n\n### 3.4 Files\n\n| S1 | create |\n\n## Appendix G. More\n\n| 5 | x |\n"
    )
    text = (
        "One (interface 3.4, S1 and S2).\n"
        "Two: interface 3.9; interface, appendix G, Z.\n"
        'Three (G5, interface G77, "Files", "Flies").'
    )

    lost = [reference for reference in references(text) if not contract.has(reference.name)]

    assert set(lost) == {
        Reference("S2", 1),
        Reference("3.9", 2),
        Reference("appendix Z", 2),
        Reference("G77", 3),
        Reference('"Flies"', 3),
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(interface 1.0.6 and 1.3, S3)", {"1.0.6", "1.3", "S3"}),
        ("(interface 1.4; S19, S20 and T16)", {"1.4", "S19", "S20", "T16"}),
        ("(interface 1.3: S1 to S4)", {"1.3", "S1", "S2", "S3", "S4"}),
        ("(interface 3.4, 4.4\n# to 4.6)", {"3.4", "4.4", "4.6"}),
        ("(interface 3, Appendix A, B, F and G)", {"3"} | {f"appendix {x}" for x in "ABFG"}),
        ("interface 3.4.", {"3.4"}),
        ("a network interface after T1.5, interface Foo {, `S3`, /S4", set()),
    ],
)
def test_lists_of_references_are_read_whole(text: str, names: set[str]) -> None:
    assert {reference.name for reference in references(text)} == names
