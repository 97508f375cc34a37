"""``jupyter sbx help``: the pages of the documentation, as they were installed."""

from __future__ import annotations

import pydoc
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING

import sbx_jupyter
from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands

_INSTALLED = ("share", "doc", "sbx-jupyter")


def add_to(commands: Commands) -> None:
    """Add the command."""
    about = "print a page of the documentation, or list the pages"
    parser = commands.add_parser("help", help=about, description=about)
    parser.add_argument("page", nargs="?", help="its name, as the list has it")
    parser.set_defaults(run=show_page)


def show_page(options: argparse.Namespace) -> int:
    """Print a page, a screen at a time for a person. Raises ``NotFoundError``."""
    pages = find_pages()
    if options.page is None:
        for name, path in sorted(pages.items()):
            print(f"{name:18}{title_of(path)}")
        return 0
    if (path := pages.get(options.page.removesuffix(".md"))) is None:
        raise NotFoundError(f"there is no page '{options.page}'; `jupyter sbx help` lists them")
    text = path.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        pydoc.pager(text)
    else:
        print(text, end="")
    return 0


def find_pages() -> dict[str, Path]:
    """The files of the pages by their names."""
    checkout = Path(sbx_jupyter.__file__).parents[1] / "docs"
    found = list(checkout.glob("*.md")) or _installed()
    return {path.stem: path for path in found}


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


def title_of(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
