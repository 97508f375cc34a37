"""The page about other programs has the last results, which are those that were expected."""

from __future__ import annotations

import pytest

from tests.integrations.differences import BY_TIER, EVERYWHERE, unexpected
from tests.integrations.programs import INTEGRATIONS, Integration
from tests.integrations.record import PAGE, last_run, page
from tests.tiers.rows import LANDLOCK, ROOT, TIERS

NAMES = {each.name for each in INTEGRATIONS}


def test_the_page_has_the_last_results() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.integrations.record"


@pytest.mark.parametrize("integration", INTEGRATIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("tier", TIERS)
def test_each_failed_check_has_a_reason_and_each_reason_a_check(
    integration: Integration, tier: str
) -> None:
    found = last_run()[integration.name]["tiers"][tier]

    assert found["checks"] > 0
    assert unexpected(integration.name, tier, found["failed"]) == []


def test_each_reason_is_of_a_tier_and_a_program() -> None:
    assert set(BY_TIER) <= set(TIERS)
    assert {*EVERYWHERE, *(name for known in BY_TIER.values() for name in known)} <= NAMES


def test_what_fails_or_passes_against_expectation_is_named() -> None:
    known = list(BY_TIER[LANDLOCK]["langchain"])

    assert unexpected("langchain", LANDLOCK, known) == []
    assert unexpected("langchain", LANDLOCK, [*known[1:], "execute"]) == [
        "execute fails",
        f"{known[0]} passes",
    ]
    assert unexpected("langchain", ROOT, known[:1]) == [f"{known[0]} fails"]
