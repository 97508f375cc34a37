"""The table of ``docs/security-tests.md`` names tests that there are, without gaps."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.security import exhaustion, flooding, interface, keeper_attacks, ports, walls
from tests.security.attacks import SCRIPTS
from tests.security.walls import SIEGE_NAMES, WALLS, Tried, Wall

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "security-tests.md"
ATTACKS = {
    attack.name: {SIEGE_NAMES[tier] for tier in attack.tiers}
    for attack in (
        *SCRIPTS,
        *keeper_attacks.ATTACKS,
        *interface.ATTACKS,
        *ports.ATTACKS,
        *exhaustion.ATTACKS,
        *flooding.ATTACKS,
    )
}


@cache
def functions_of(where: str) -> set[str]:
    tree = ast.parse((TESTS / where).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def missing(tried: Tried) -> list[str]:
    """What the table names and the tests do not have."""
    if tried.where == "security/test_siege.py":
        return [name for name in tried.names if not set(tried.tiers) <= ATTACKS.get(name, set())]
    return [name for name in tried.names if name not in functions_of(tried.where)]


@pytest.mark.parametrize("wall", WALLS, ids=lambda wall: wall.attack)
def test_each_class_of_attack_is_tried_in_each_tier_where_it_applies(wall: Wall) -> None:
    assert [name for tried in wall.tried for name in missing(tried)] == []
    assert wall.tried
    covered = {tier for tried in wall.tried for tier in tried.tiers}
    assert set(wall.needed) <= covered, set(wall.needed) - covered
    if set(wall.needed) not in (set(walls.TIERS), set()) and walls.LANDLOCK not in wall.needed:
        assert wall.open_in or wall.needed == (walls.ROOT,)


def test_the_page_has_this_table() -> None:
    _, _, rest = PAGE.read_text().partition("which tests/docs/test_walls.py compares. -->\n")
    table, _, _ = rest.partition("<!-- End of the generated part. -->")
    assert table == walls.to_markdown()
