"""The pages of the documentation and their pictures, as they were installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

import sbx_jupyter

_INSTALLED: Final = ("share", "doc", "sbx-jupyter")
_PICTURES: Final = (".png", ".svg")


def find_pages() -> dict[str, Path]:
    """The files of the pages by their names; empty where none are installed."""
    checkout = Path(sbx_jupyter.__file__).parents[1] / "docs"
    found = list(checkout.glob("*.md")) or _installed()
    return {path.stem: path for path in sorted(found)}


def find_pictures() -> dict[str, Path]:
    """The files of the pictures that pages show, by their names with ``.png`` or ``.svg``."""
    folder = next((page.parent / "pictures" for page in find_pages().values()), None)
    found = [] if folder is None else sorted(folder.glob("*"))
    return {path.name: path for path in found if path.suffix in _PICTURES}


def title_of(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _installed() -> list[Path]:
    try:
        listed = files("sbx-jupyter") or []
    except PackageNotFoundError:
        return []
    return [
        Path(str(file.locate()))
        for file in listed
        if file.parts[-4:-1] == _INSTALLED and file.suffix == ".md"
    ]
