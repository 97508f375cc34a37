"""Matches names against a ``.dockerignore`` file by Docker's rules."""

from __future__ import annotations

import os
import re

from sbx_jupyter.errors import InvalidArgumentError


class IgnorePatterns:
    """The patterns of a ``.dockerignore``; the last one that matches a name decides."""

    def __init__(self, text: str) -> None:
        """Parse the file's text; raises ``InvalidArgumentError`` for an invalid pattern."""
        self._patterns: list[tuple[bool, re.Pattern[str]]] = []
        for raw in text.splitlines():
            line = raw.strip()
            if not line or raw.startswith("#"):
                continue
            keeps = line.startswith("!")
            normal = os.path.normpath(line.removeprefix("!").strip()).lstrip("/")
            self._patterns.append((keeps, _compile(normal)))

    def match(self, name: str) -> bool:
        """Whether the file with this name is ignored, by itself or with a directory above it."""
        parts = name.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        is_ignored = False
        for keeps, pattern in self._patterns:
            if is_ignored == keeps and any(pattern.fullmatch(path) for path in above):
                is_ignored = not keeps
        return is_ignored


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_expression(pattern))
    except re.error as error:
        raise InvalidArgumentError(f".dockerignore: '{pattern[:100]}': {error}") from None


def _expression(pattern: str) -> str:
    """The pattern as a regular expression: ``*`` matches within one directory, ``**`` across."""
    if pattern == ".":
        return ".*"
    made, place = "", 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if pattern.startswith("**", place - 1):
            place += 1
            is_whole = pattern.startswith("/", place)
            made += "(?:.*/)?" if is_whole else ".*"
            place += is_whole
        elif character == "*":
            made += "[^/]*"
        elif character == "?":
            made += "[^/]"
        elif character == "[" and (end := pattern.find("]", place + 1)) > 0:
            made += "[" + pattern[place:end].replace("\\", "\\\\") + "]"
            place = end + 1
        elif character == "\\" and place < len(pattern):
            made += re.escape(pattern[place])
            place += 1
        else:
            made += re.escape(character)
    return made
