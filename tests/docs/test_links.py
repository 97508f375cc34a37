"""Test that links, module paths and class names in the pages of the repository lead somewhere."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "tests", "binder", "labextension/src")
PAGES = sorted(
    page
    for page in {*ROOT.glob("*.md"), *(page for f in FOLDERS for page in (ROOT / f).rglob("*.md"))}
    if "node_modules" not in page.parts  # packages that other tests install
)
OTHER_NAMES = ("interface.md", "CHANGELOG.md", "use-it-from.md")
DESCRIPTIONS = [page for page in PAGES if page.name not in OTHER_NAMES]
"""The pages that speak of our modules and classes, as they are now."""

BASES = (ROOT, ROOT / "sbx_jupyter", ROOT / "labextension/src", ROOT / "labextension")
OUTSIDE = {"GitHub", "JavaScript", "TypeScript", "JupyterLab", "BuildKit", "MappingKernelManager"}
"""Names in capitals and small letters that are not classes of ours."""

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
TREE = re.compile(r"^```\n(sbx_jupyter/\n.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`[^`\n]+`")
FILE = re.compile(
    r"(?<![\w/.<>~-])(?:[\w.-]+/)+[\w.-]*\.(?:py|tsx?|md|sh|json|toml|ipynb|css|mjs)\b"
)
FOLDER = re.compile(r"(?<![\w/.<>~-])(?:sbx_jupyter|labextension|tests|docs)/(?:[\w-]+/)*(?![\w.])")
DOTTED = re.compile(r"\bsbx_jupyter(?:\.[a-z_]\w*)+")
CLASS = re.compile(r"(?<![\w-])_?[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)+\b")


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(page: str) -> set[str]:
    """All anchors of a page; of headings with one text the later ones are numbered."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.*)$", FENCE.sub("", page), re.MULTILINE):
        name, number = slug(heading), 0
        while (candidate := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(candidate)
    return found


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of it."""
    broken = []
    for target in LINK.findall(SPAN.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        there = file.exists()
        if there and anchor:
            there = anchor in anchors(text if file == page else file.read_text())
        if not there:
            broken.append(target)
    return broken


def wrong_names(text: str) -> list[str]:
    """Files, folders, modules and classes that a page names and that are not there."""
    files = [name for name in FILE.findall(text) if not any((b / name).exists() for b in BASES)]
    folders = [name for name in FOLDER.findall(text) if not (ROOT / name).is_dir()]
    modules = [name for name in DOTTED.findall(text) if not is_module(name)]
    classes = [
        name
        for span in SPAN.findall(FENCE.sub("", text))
        for name in CLASS.findall(span)
        if name not in classes_of_ours() | OUTSIDE
    ]
    return files + folders + modules + classes


def missing_folders(text: str) -> list[str]:
    """The folders of the trees that a page draws, by indentation, and that are not there."""
    missing = []
    for tree in TREE.findall(text):
        above: dict[int, Path] = {}
        for indent, name in re.findall(r"^( *)([\w/-]+/)(?:\s|$)", tree, re.MULTILINE):
            path = above.get(len(indent) - 2, ROOT) / name
            above[len(indent)] = path
            if not path.is_dir():
                missing.append(str(path.relative_to(ROOT)))
    return missing


def is_module(name: str) -> bool:
    """Whether a dotted name is a module or something that a module has."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, attribute = path.parent, path.name
    source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return source.exists() and re.search(rf"\b{attribute}\b", source.read_text()) is not None


@cache
def classes_of_ours() -> set[str]:
    """The classes and type names of the package and of the front end."""
    names: set[str] = set()
    for path in (ROOT / "sbx_jupyter").rglob("*.py"):
        tree = ast.parse(path.read_text())
        names.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        names.update(re.findall(r"^([A-Z]\w+)(?:: TypeAlias)? = ", path.read_text(), re.MULTILINE))
    for path in (ROOT / "labextension/src").rglob("*.ts*"):
        names.update(re.findall(r"\b(?:class|interface|type|namespace) (\w+)", path.read_text()))
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", DESCRIPTIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_classes_are_there(page: Path) -> None:
    assert wrong_names(page.read_text()) == []
    assert missing_folders(page.read_text()) == []


def test_broken_links_are_told() -> None:
    text = "# One thing\n[a](#one-thing) [b](#other) [c](nowhere.md) [d](README.md#no-such)\n"

    assert broken_links(ROOT / "README.md", text) == ["#other", "nowhere.md", "README.md#no-such"]


def test_wrong_names_are_told() -> None:
    text = (
        "`engine/engine.py` `engine/motor.py` `sbx_jupyter/service/` `sbx_jupyter/motors/`\n"
        "`sbx_jupyter.agent.processes.spawn` `sbx_jupyter.agent.motor` `SbxError` `MotorError`\n"
    )

    expected = ["engine/motor.py", "sbx_jupyter/motors/", "sbx_jupyter.agent.motor", "MotorError"]
    assert wrong_names(text) == expected


def test_folders_of_a_tree_are_looked_for_below_the_one_above() -> None:
    tree = (
        "```\nsbx_jupyter/\n  engine/  sandboxes\n    live/  one\n    motor/  none\n  live/\n```\n"
    )

    assert missing_folders(tree) == ["sbx_jupyter/engine/motor", "sbx_jupyter/live"]
