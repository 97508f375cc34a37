"""Prints what ``lowest_versions.sh`` installs: the package's dependencies at their lowest versions.

The tools of the tests follow, as the extra ``test`` has them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_DEPENDENCY = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)[^;]*(?P<marker>;.*)?")

_NAME = re.compile(r"[\w.-]+")

TOOLS = ("e2b", "hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")
"""What the unit tests import beside the dependencies, and what runs them."""


def lowest(dependencies: list[str]) -> list[str]:
    """The same requirements, each with its lower bound alone. Raises ``ValueError`` without one."""
    found: list[str] = []
    for dependency in dependencies:
        parts = _DEPENDENCY.fullmatch(dependency)
        if parts is None:
            raise ValueError(f"{dependency!r} has no lower bound")
        marker = parts["marker"] or ""
        found.append(f"{parts['name']}=={parts['version']}{marker}")
    return found


def tools(extra: list[str]) -> list[str]:
    """Those requirements that are of ``TOOLS``."""
    return [text for text in extra if (name := _NAME.match(text)) and name[0] in TOOLS]


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extra = tools(project["optional-dependencies"]["test"])
    sys.stdout.write("\n".join(lowest(project["dependencies"]) + extra))
