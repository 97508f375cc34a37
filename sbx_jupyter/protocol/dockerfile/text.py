"""Parses the text of a Dockerfile: instructions, here-documents, words and variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DIRECTIVE: Final = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*\Z")
_HEREDOC: Final = re.compile(r"\d*<<(-?)(['\"]?)([^<'\"\s]+)\2\Z")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_TAKING_HEREDOCS: Final = ("RUN", "COPY", "ADD")
_QUOTED_ESCAPES: Final = '"$\\'


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A here-document: a file whose content is in the Dockerfile."""

    name: str
    content: str
    is_literal: bool
    """Whether its name was quoted, so that its variables are not replaced."""

    raw: str
    """The unchanged lines, including the last one, which ends the here-document."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``line`` is the number of its first line."""

    line: int
    word: str
    rest: str
    heredocs: tuple[Heredoc, ...] = ()


class DockerfileError(InvalidArgumentError):
    """A Dockerfile that cannot be built; the message names the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"Dockerfile, line {line}: {message}")


@dataclass(frozen=True, slots=True)
class Document:
    instructions: list[Instruction]
    escape: str
    """The escape character, which also continues lines: a backslash or a backtick."""


def read(text: str) -> Document:
    """The instructions of a Dockerfile; raises ``DockerfileError``."""
    lines = text.removeprefix("\ufeff").splitlines()
    escape = _escape(lines)
    return Document(list(_instructions(lines, escape)), escape)


def _escape(lines: list[str]) -> str:
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.match(line.strip())
        if found is None:
            break
        if found[1].lower() == "escape":
            if found[2] not in ("\\", "`"):
                raise DockerfileError(number, "the escape character is a backslash or a backtick")
            return found[2]
    return "\\"


def _instructions(lines: list[str], escape: str) -> Iterator[Instruction]:
    continued = re.compile(rf"(?<!{re.escape(escape)}){re.escape(escape)}[ \t]*\Z")
    place = 0
    while place < len(lines):
        begun, text, is_open = place + 1, "", True
        while is_open and place < len(lines):
            line = lines[place]
            place += 1
            if line.lstrip().startswith("#") or not line.strip():
                if not text:
                    begun = place + 1
                continue
            text += continued.sub("", line if text else line.lstrip())
            is_open = continued.search(line) is not None
        if not text.strip():
            continue
        word, rest = [*text.split(None, 1), ""][:2]
        word, rest = word.upper(), rest.strip()
        heredocs: list[Heredoc] = []
        if word in _TAKING_HEREDOCS:
            for found in _heredoc_marks(rest):
                heredoc, place = _heredoc(lines, place, found, begun)
                heredocs.append(heredoc)
        yield Instruction(begun, word, rest, tuple(heredocs))


def _heredoc_marks(rest: str) -> list[re.Match[str]]:
    return [found for word in split(rest) if (found := _HEREDOC.match(word)) is not None]


def _heredoc(lines: list[str], place: int, mark: re.Match[str], begun: int) -> tuple[Heredoc, int]:
    strips, quote, name = mark.groups()
    start = place
    while place < len(lines):
        line = lines[place].lstrip("\t") if strips else lines[place]
        place += 1
        if line == name:
            body = [item.lstrip("\t") if strips else item for item in lines[start : place - 1]]
            content = "".join(f"{item}\n" for item in body)
            raw = "".join(f"{item}\n" for item in lines[start:place])
            return Heredoc(name, content, bool(quote), raw), place
    raise DockerfileError(begun, f"the here-document '{name}' has no end")


def is_heredoc_mark(word: str) -> bool:
    """Whether a word, such as ``<<EOF``, announces a here-document."""
    return _HEREDOC.match(word) is not None


def split(text: str, escape: str = "\\") -> list[str]:
    """The words of a line, unchanged and with their quotes."""
    words: list[str] = []
    word, quote = "", ""
    characters = iter(text)
    for character in characters:
        if character == escape and quote != "'":
            word += character + next(characters, "")
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character.isspace():
            if word:
                words.append(word)
            word = ""
            continue
        word += character
    return [*words, word] if word else words


@dataclass(slots=True)
class Expander:
    """Removes the quotes of a word and replaces variables by their values.

    ``lookup`` receives the name of a variable and what follows it in the braces, such as ``:-x``,
    and returns the text to insert.
    """

    lookup: Callable[[str, str], str]
    escape: str = "\\"
    literal: Callable[[str], str] = lambda text: text
    """Converts the text between variables."""

    def expand(self, text: str) -> str:
        """Expand a word; raises ``InvalidArgumentError`` for a quote or brace without an end."""
        made, place, quote = "", 0, ""
        while place < len(text):
            character = text[place]
            place += 1
            if quote == "'":
                if character == "'":
                    quote = ""
                else:
                    made += self.literal(character)
            elif character == self.escape and place < len(text):
                following = text[place]
                place += 1
                kept = quote == '"' and following not in _QUOTED_ESCAPES + self.escape
                made += self.literal(character + following if kept else following)
            elif character == quote:
                quote = ""
            elif character in "'\"" and not quote:
                quote = character
            elif character == "$":
                value, place = self._variable(text, place)
                made += value
            else:
                made += self.literal(character)
        if quote:
            raise InvalidArgumentError(f"a quote has no end: {text[:100]}")
        return made

    def expand_plain(self, text: str) -> str:
        """Replace variables and keep quotes, as in here-documents."""
        made, place = "", 0
        while place < len(text):
            character = text[place]
            place += 1
            if character == self.escape and text[place : place + 1] in ("$", self.escape):
                made += text[place]
                place += 1
            elif character == "$":
                value, place = self._variable(text, place)
                made += value
            else:
                made += character
        return made

    def _variable(self, text: str, place: int) -> tuple[str, int]:
        if text[place : place + 1] == "{":
            end = _closing(text, place + 1)
            inner = text[place + 1 : end]
            found = _NAME.match(inner)
            if found is None:
                raise InvalidArgumentError(f"'${{{inner[:100]}}}' is no variable")
            return self.lookup(found[0], inner[found.end() :]), end + 1
        found = _NAME.match(text, place)
        if found is None:
            return self.literal("$"), place
        return self.lookup(found[0], ""), found.end()


def _closing(text: str, place: int) -> int:
    depth = 1
    for at in range(place, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    raise InvalidArgumentError("a brace has no end")
