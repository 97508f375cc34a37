"""The package declares what it imports, and imports what it declares."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.lowest_versions import TOOLS

ROOT = Path(__file__).parents[1]

OF_SANDBOXES = {"matplotlib", "numpy"}
"""What programs in a sandbox may have installed: looked at only after they imported it."""

LATER_STANDARD = {"compression"}
"""Of the standard library since a version that is newer than our lowest."""

NOT_IMPORTED = {
    "ipywidgets": "anywidget stands on it, and allows versions too old for JupyterLab 4",
    "sniffio": "httpcore imports it in each request, and goes on without it after a search",
}
"""Declared for its version, or for what it installs beside its modules."""


def imports_of(source: str) -> set[str]:
    """The first parts of the names of all modules that a text imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def normal(name: str) -> str:
    """The name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def imported() -> dict[str, set[str]]:
    """The distributions that have each imported module: one of them must be declared."""
    standard = {*sys.stdlib_module_names, *LATER_STANDARD, "sbx_jupyter"}
    names: set[str] = set()
    for path in (ROOT / "sbx_jupyter").rglob("*.py"):
        names |= imports_of(path.read_text()) - standard - OF_SANDBOXES
    owners = packages_distributions()
    return {name: {normal(owner) for owner in owners.get(name, [])} for name in names}


@cache
def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normal(re.split(r"[<>=!;\[ ]", text)[0]) for text in project["dependencies"]}


def test_what_is_imported_is_declared() -> None:
    missing = {name for name, owners in imported().items() if not owners & declared()}

    assert missing == set(), "imported, and installed only because something else needs it"


def test_what_is_declared_is_imported() -> None:
    used = set[str]().union(*imported().values())

    # From Python 3.14 on the standard library has this one.
    later = {"backports-zstd"} if sys.version_info >= (3, 14) else set[str]()
    assert declared() - used - later == set(NOT_IMPORTED)


def test_the_modules_of_sandboxes_are_imported_by_the_interpreter_alone() -> None:
    folders = {
        path.relative_to(ROOT / "sbx_jupyter").parts[0]
        for path in (ROOT / "sbx_jupyter").rglob("*.py")
        if imports_of(path.read_text()) & OF_SANDBOXES
    }

    assert folders == {"interpreter"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b, c\nfrom d.e import f\n", {"a", "c", "d"}),
        ("def f():\n    import late\n", {"late"}),
        ("from . import beside\n", set[str]()),
    ],
)
def test_imports_are_found_wherever_they_are(source: str, names: set[str]) -> None:
    assert imports_of(source) == names


def lowest_tests() -> list[Path]:
    """The modules that ``make test-lowest`` runs, and what they get fixtures from."""
    make = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    # It prints what it would do, and does nothing.
    said = subprocess.run(
        ["make", "-n", "test-lowest"],
        cwd=ROOT,
        env=make,
        capture_output=True,
        text=True,
        check=True,
    )
    (command,) = re.findall(r"^sh tests/lowest_versions\.sh (.+)$", said.stdout, re.MULTILINE)
    found = {ROOT / name for name in command.split()}
    found |= {parent / "conftest.py" for path in found for parent in path.parents}
    modules = {module for path in found for module in [path, *path.glob("*.py")]}
    return sorted(module for module in modules if module.is_file() and ROOT in module.parents)


def test_the_tests_with_the_lowest_versions_import_only_what_is_installed_for_them() -> None:
    there = declared() | {normal(name) for name in TOOLS}
    owners = packages_distributions()
    missing: dict[str, set[str]] = {}
    for module in lowest_tests():
        names = imports_of(module.read_text()) - set(sys.stdlib_module_names)
        lacking = {
            name
            for name in names - LATER_STANDARD - {"sbx_jupyter", "tests"}
            if not {normal(owner) for owner in owners.get(name, [])} & there
        }
        if lacking:
            missing[str(module.relative_to(ROOT))] = lacking

    assert missing == {}
    assert len(lowest_tests()) > 20
