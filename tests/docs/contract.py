"""Reads ``docs/interface.md`` and finds references to it in code, comments and pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECTION = r"\d{1,2}(?:\.\d{1,2}){0,2}(?![\w.]*\w)"
_IDENTIFIER = r"[A-HS-X]\d{1,2}\b"
_APPENDIX = r"[Aa]ppendix(?:es)?\s+[A-Z]\b(?:(?:,|\s+and)\s+[A-Z]\b(?!\d))*"
_QUOTED = r'"[^"\n]{3,40}"'
_ITEM = rf"(?:{_APPENDIX}|{_SECTION}|{_IDENTIFIER}|{_QUOTED})"
_BREAK = r"[\s#*/]"  # white space, over the beginnings of comment lines
_BETWEEN = rf"(?:[,;:]{_BREAK}*|{_BREAK}+)(?:(?:and|to|or){_BREAK}+)?"

_LISTED = re.compile(rf"\b[Ii]nterface,?{_BREAK}+({_ITEM}(?:{_BETWEEN}{_ITEM})*)")
_PARTS = re.compile(_ITEM)
_RANGE = re.compile(rf"([A-Z])(\d+){_BREAK}+to{_BREAK}+\1(\d+)\b")
_BARE = re.compile(r"(?<![\w.`/$<-])([STVXAH]\d{1,2})(?![\w`>.]*\w)")
_IN_PARENTHESES = re.compile(r"\(([A-HS-X]\d{1,2})\)")
_WITHIN = re.compile(rf"\b(?:see|sections?)\s+({_SECTION})")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """One mention of a part of the interface, such as ``3.4``, ``S19`` or ``appendix G``."""

    name: str
    line: int


class Contract:
    """The sections, endpoints, appendices and names that ``docs/interface.md`` has."""

    def __init__(self, text: str) -> None:
        self.sections: set[str] = set()
        self.identifiers: set[str] = set()
        self.names: set[str] = set()
        appendix = ""
        for line in _FENCE.sub("", text).splitlines():
            if heading := re.match(r"#{2,5} (?:Appendix )?((?:\d|[A-Z]\.)[\d.]*)?\s*(.*)", line):
                number, title = (heading[1] or "").rstrip("."), heading[2]
                appendix = number if number.isalpha() else "" if number else appendix
                self.sections.add(number)
                self.names.add(title)
            elif row := re.match(r"\| ([^|]+?) \|", line):
                self.names.add(row[1])
                self._add_row(row[1], appendix)
            elif appendix and (item := re.match(r"(\d+)\. ", line)):
                self.identifiers.add(appendix + item[1])
            self.names.update(re.findall(r"^([A-Z]\w+):", line))

    def _add_row(self, first: str, appendix: str) -> None:
        if re.fullmatch(r"[STVXAH]\d+", first):
            self.identifiers.add(first)
        elif appendix and first.isdecimal():
            self.identifiers.add(appendix + first)

    def has(self, name: str) -> bool:
        """Whether a reference leads somewhere."""
        if name.startswith('"'):
            return name.strip('"') in self.names
        if name.startswith("appendix "):
            return name.removeprefix("appendix ") in self.sections
        return name in self.sections or name in self.identifiers


def references(text: str, *, everywhere: bool = True) -> Iterator[Reference]:
    """All references in a text; with ``everywhere`` also identifiers that stand alone."""
    for found in _LISTED.finditer(text):
        for part in _PARTS.finditer(text, found.start(1), found.end(1)):
            for name in _names(part[0]):
                yield Reference(name, _line(text, part.start()))
    patterns = (_IN_PARENTHESES, _BARE) if everywhere else (_IN_PARENTHESES,)
    alone = {found.start(1): found[1] for form in patterns for found in form.finditer(text)}
    for position, name in alone.items():
        yield Reference(name, _line(text, position))
    for found in _RANGE.finditer(text):
        for number in range(int(found[2]) + 1, int(found[3])):
            yield Reference(f"{found[1]}{number}", _line(text, found.start()))


def references_within(text: str) -> Iterator[Reference]:
    """Mentions like "see 9.4" in the page itself, where the word "interface" is left out."""
    for found in _WITHIN.finditer(text):
        yield Reference(found[1], _line(text, found.start()))


def references_in_file(path: Path) -> Iterator[Reference]:
    """The references in a Python or TypeScript file or a page."""
    text = path.read_text()
    if path.suffix == ".py":
        yield from _in_python(text)
    elif path.suffix == ".md":
        yield from references(_FENCE.sub(_blank, text))
    else:
        for comment in _COMMENT.finditer(text):
            yield from _moved(references(comment[0]), _line(text, comment.start()))


def _in_python(text: str) -> Iterator[Reference]:
    """Comments and docstrings in full, of other strings what says "interface" or is in brackets."""
    yield from references("\n".join(_comments(text)))
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = references(node.value, everywhere=id(node) in docstrings)
            yield from _moved(found, node.lineno)


def _comments(text: str) -> list[str]:
    """One line for each line of a module: its comment, or nothing."""
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string
    return lines


def _names(item: str) -> Iterator[str]:
    if item[:8].lower() == "appendix":
        yield from (f"appendix {letter}" for letter in re.findall(r"\b[A-Z]\b", item))
    else:
        yield item


def _moved(found: Iterator[Reference], line: int) -> Iterator[Reference]:
    return (Reference(reference.name, reference.line + line - 1) for reference in found)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
