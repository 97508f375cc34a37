"""The blocks of code of the pages, and a program that runs those of Python: see ``main``."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK: Final = re.compile(
    r"^(?P<mark><!-- not run: [^\n]+ -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```",
    re.DOTALL | re.M,
)
_RESULT: Final = re.compile(r"# (['\"].*|\d+)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code of a page."""

    page: str
    line: int
    language: str
    text: str
    is_marked: bool
    """Whether the page says above it, in a comment, that it is not run, and why."""

    @property
    def is_of_settings(self) -> bool:
        """Whether it is a part of a configuration file."""
        return all(
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("c.")
            for node in ast.parse(self.text).body
        )


def blocks(language: str) -> Iterator[Block]:
    """The blocks of all pages in a language; ``""`` is a shell."""
    for page in PAGES:
        source = page.read_text()
        for found in _BLOCK.finditer(source):
            if found["language"] == language:
                line = source.count("\n", 0, found.start("text")) + 1
                name = str(page.relative_to(ROOT))
                yield Block(name, line, language, found["text"], found["mark"] is not None)


def run(found: list[Block]) -> None:
    """Run blocks of one page one after the other; what a comment gives as a result must come."""
    names: dict[str, Any] = {}
    for block in found:
        lines = block.text.splitlines()
        for node in ast.parse(block.text).body:
            where = f"{block.page}:{block.line + node.lineno - 1}"
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), where, "exec"), names)
                continue
            value = eval(compile(ast.Expression(node.value), where, "eval"), names)
            said = _RESULT.search(lines[(node.end_lineno or 0) - 1][node.end_col_offset or 0 :])
            assert said is None or repr(value) == said[1], f"{where}: {value!r}"
    for value in names.values():
        if hasattr(value, "sandbox_id") and hasattr(value, "kill"):
            value.kill()


def main(pages: list[str]) -> None:
    """Run the blocks of Python of pages, but those that are marked and those of settings."""
    environment = dict(os.environ)
    for page in pages:
        run([
            block
            for block in blocks("python")
            if block.page == page and not block.is_marked and not block.is_of_settings
        ])  # fmt: skip
        os.environ.clear()
        os.environ.update(environment)


if __name__ == "__main__":
    main(sys.argv[1:])
