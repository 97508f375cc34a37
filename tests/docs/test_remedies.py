"""Every message that names a remedy names a page of the documentation that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.cli.help import find_pages
from sbx_jupyter.cli.main import main
from sbx_jupyter.errors import see

PACKAGE = Path(__file__).parents[2] / "sbx_jupyter"
REMEDY = re.compile(r"jupyter sbx (?!help)|apt-get install|c\.Sbx(?:Engine|Extension)\.\w+ \(or")


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def test_each_page_that_a_message_names_is_there() -> None:
    pages = find_pages()
    named = [
        (where, node.args[-1].value)
        for where, node in calls()
        if getattr(node.func, "id", "") in ("see", "Missing")
        and isinstance(node.args[-1], ast.Constant)
    ]

    assert len(named) > 30
    assert [(where, page) for where, page in named if page not in pages] == []


def test_each_error_with_a_remedy_names_a_page() -> None:
    without = [
        where
        for where, node in calls()
        if getattr(node.func, "id", "").endswith("Error")
        and REMEDY.search(text := ast.unparse(node))
        and "see(" not in text
    ]

    assert without == []


def test_help_lists_and_prints_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "limits            Limits" in capsys.readouterr().out
    assert main(see("limits").strip(" ()").removeprefix("jupyter sbx ").split()) == 0
    assert capsys.readouterr().out.startswith("# Limits\n")
    assert main(["help", "no-such-page"]) == 1
    assert "there is no page" in capsys.readouterr().err
