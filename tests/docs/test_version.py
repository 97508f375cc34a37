"""The version is that of ``pyproject.toml``, wherever else a tool wants it to be written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_front_end_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    front_end = json.loads((ROOT / "labextension" / "package.json").read_text())

    assert front_end["version"] == project["version"]
