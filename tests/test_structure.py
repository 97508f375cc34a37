"""Modules, functions and folders stay small, as CONTRIBUTING.md says."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sbx_jupyter

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(sbx_jupyter.__file__).parent

MOST_LINES: Final = 400
MOST_LINES_OF_A_FUNCTION: Final = 40
"""From ``def`` to its last line, with the docstring."""

MOST_MODULES: Final = 23
"""In one folder, its face included."""

LONG_FUNCTIONS: Final = {
    "client/sandbox.py AsyncSandbox.create": "names each argument, says what it is, passes it on",
    "engine/assembly.py assemble": "makes the components one after the other",
    "engine/state/store.py Store.__init__": "a list of tables and of what is kept beside them",
    "engine/watch/meters.py Meters.__init__": "a list of meters with their texts",
    "isolation/fence.py Fence.__init__": "says what each argument is, and keeps it",
}
"""These do nothing that could be told apart: the reason for each."""


_START: Final = re.compile(r"( *)(?:@|class |(?:async )?(def) )")


@functools.cache
def modules(package: Path) -> dict[str, str]:
    """The text of each module, by its path below ``package``."""
    return {
        str(path.relative_to(package)): path.read_text() for path in sorted(package.rglob("*.py"))
    }


def long_modules(package: Path) -> list[str]:
    return [name for name, text in modules(package).items() if len(text.splitlines()) > MOST_LINES]


def long_functions(package: Path) -> list[str]:
    return [
        f"{module} {name}"
        for module, text in modules(package).items()
        if may_have_long_function(text)
        for name, node in functions(ast.parse(text))
        if (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]


def may_have_long_function(text: str) -> bool:
    """Whether a definition is far from the next one: to parse all modules takes seconds."""
    open_at: dict[int, int] = {}
    for number, line in enumerate([*text.splitlines(), "class End"]):
        if start := _START.match(line):
            column = len(start[1])
            ended = [each for each in open_at if each >= column]
            if any(number - open_at.pop(each) > MOST_LINES_OF_A_FUNCTION for each in ended):
                return True
            if start[2]:
                open_at[column] = number
    return False


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Every function with its name, those in classes and other functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not isinstance(node, ast.ClassDef):
                yield within + node.name, node
            yield from functions(node, f"{within}{node.name}.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(node, within)


def full_folders(package: Path) -> list[str]:
    counts = Counter(str(Path(name).parent) for name in modules(package))
    return [folder for folder, count in counts.items() if count > MOST_MODULES]


def test_no_module_is_long():
    assert long_modules(PACKAGE) == []


def test_no_function_is_long_but_those_with_a_reason():
    assert long_functions(PACKAGE) == sorted(LONG_FUNCTIONS)


def test_no_folder_is_full():
    assert full_folders(PACKAGE) == []


def test_what_is_too_long_is_found(tmp_path: Path):
    lines = "\n".join(["    pass"] * MOST_LINES_OF_A_FUNCTION)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "long.py").write_text(
        f"class A:\n  if True:\n   async def made(self):\n{lines}\n   def kept(self): ...\n"
    )
    (tmp_path / "whole.py").write_text("pass\n" * (MOST_LINES + 1))
    (tmp_path / "right.py").write_text("pass\n" * MOST_LINES)
    for number in range(MOST_MODULES):
        (tmp_path / "part" / f"other{number}.py").touch()

    assert long_functions(tmp_path) == ["part/long.py A.made"]
    assert long_modules(tmp_path) == ["whole.py"]
    assert full_folders(tmp_path) == ["part"]
