"""``jupyter sbx help``: prints the pages of the documentation."""

from __future__ import annotations

import pydoc
import sys
from typing import TYPE_CHECKING

from sbx_jupyter.display.documentation import find_pages, title_of
from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands


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
        for name, path in pages.items():
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
