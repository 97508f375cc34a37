"""Every message that names a remedy names a page of the documentation that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.cli.main import main
from sbx_jupyter.display.documentation import find_pages
from sbx_jupyter.errors import see

PACKAGE = Path(__file__).parents[2] / "sbx_jupyter"
FRONT_END = PACKAGE.parent / "labextension"
REMEDY = re.compile(
    r"jupyter sbx (?!help)|apt-get install|pip install|\binstall [\w{.-]+|(?<![\w-])--data-dir"
    r"|\bSbx(?:Engine|Extension)\.\w|\braise (?:the limit|the sysctl|c\.)"
    r"|\brestart (?:the engine|it first)|\bchoose (?:a|at least) |\bremove it or "
)
TOLD = re.compile(r"Error$|^(?:warning|error|critical)$")
"""The names of what tells people that something is wrong: an exception, a line of a log."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from calls_of(str(path.relative_to(PACKAGE)), path.read_text())


def calls_of(name: str, source: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a module, in which the constants of the module stand for their names."""
    tree = ast.parse(source)
    constants: dict[str, ast.expr] = {}
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        if isinstance(target, ast.Name) and (value := getattr(node, "value", None)) is not None:
            constants[target.id] = value
    for node in ast.walk(_Constants(constants).visit(tree)):
        if isinstance(node, ast.Call):
            yield f"{name}:{node.lineno}", node


class _Constants(ast.NodeTransformer):
    """Puts the values of a module's constants in the place of their names."""

    def __init__(self, constants: dict[str, ast.expr]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._constants.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def called(node: ast.Call) -> str:
    """The name of what is called, without what it is an attribute of."""
    return getattr(node.func, "id", "") or getattr(node.func, "attr", "")


def without_a_page(found: Iterator[tuple[str, ast.Call]]) -> list[str]:
    """The messages that name a remedy and no page, by their places."""
    return [
        where
        for where, node in found
        if TOLD.search(called(node))
        and REMEDY.search(text := ast.unparse(node))
        and "see(" not in text
    ]


def test_each_page_that_a_message_names_is_there() -> None:
    pages = find_pages()
    named = [
        (where, node.args[-1].value)
        for where, node in calls()
        if called(node) in ("see", "Missing")
        and node.args
        and isinstance(node.args[-1], ast.Constant)
    ]

    named += [
        (path.name, page)
        for path in (FRONT_END / "src").rglob("*.ts*")
        for page in re.findall(r"\bpage: page \?\? '([^']*)'", path.read_text())
    ]

    assert {"isolation/missing.py", "errorDescription.ts"} <= {
        w.partition(":")[0] for w, _ in named
    }
    assert len(named) > 60
    assert [(where, page) for where, page in named if page not in pages] == []


def test_each_error_with_a_remedy_names_a_page() -> None:
    assert without_a_page(calls()) == []


@pytest.mark.parametrize(
    "told",
    [
        "MagicError('tables need pyarrow: pip install pyarrow')",
        "MagicError(f'install {oldest} or newer')",
        "errors.NoBlockLeftError('none is left; SbxEngine.host_ids can give more')",
        "PermissionDeniedError('for its owner and c.SbxExtension.see_all_users')",
        "FailedPreconditionError('give it a directory of its own with --data-dir')",
        "ResourceExhaustedError('too many: kill one, or raise the limit of the engine')",
        "InternalError(f'stopped; {AGAIN}')",
        "log.warning('c.SbxExtension.port_hosts is not used for %s', host)",
    ],
)
def test_a_remedy_without_a_page_is_found(told: str) -> None:
    source = f"AGAIN: Final = 'run `jupyter sbx recover` again'\n{told}\n"

    assert without_a_page(calls_of("module.py", source)) == ["module.py:2"]
    mended = source.replace("')", "' + see('limits'))").replace("', host", "' + see('x'), host")
    assert without_a_page(calls_of("module.py", mended)) == []


def test_help_lists_and_prints_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "limits            Limits" in capsys.readouterr().out
    assert main(see("limits").strip(" ()").removeprefix("jupyter sbx ").split()) == 0
    assert capsys.readouterr().out.startswith("# Limits\n")
    assert main(["help", "no-such-page"]) == 1
    assert "there is no page" in capsys.readouterr().err
