"""Prints the dependencies of the package at their lowest versions, for ``lowest_versions.sh``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_DEPENDENCY = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)[^;]*(?P<marker>;.*)?")


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


if __name__ == "__main__":
    sys.stdout.write(
        "\n".join(lowest(tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]))
    )
