"""Subcommands for files: between the notebook's machine and a sandbox, and shown in a cell."""

from __future__ import annotations

import base64
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client.files.sync_files import blocking_read_at_most
from sbx_jupyter.display.bundle import safe_bundle
from sbx_jupyter.display.reports import table
from sbx_jupyter.display.text import clean, one_line, size
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.screen import show_bundle, show_html, write
from sbx_jupyter.protocol.runtime import DIRECTORY

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.magics.parsing import Parser

_MAX_SHOWN: Final = 8 * 1024 * 1024
_FORMATS: Final = {
    ".png": "png",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
}


def _put_arguments(parser: Parser) -> None:
    parser.add_argument("source", help="a file of this machine")
    parser.add_argument(
        "path", nargs="?", default="", help="where to write it (default: its name, at home)"
    )


def _put(notebook: Notebook, options: argparse.Namespace) -> None:
    source = Path(options.source).expanduser()
    if not source.is_file():
        raise MagicError(f"there is no file {options.source!r} on this machine")
    known = notebook.find(options)
    written = known.box.files.upload(source, _target(options.path, source.name))
    write(f"wrote {size(source.stat().st_size)} to {written.path} in {known.label}\n")


def _get_arguments(parser: Parser) -> None:
    parser.add_argument("path", help="a file of the sandbox")
    parser.add_argument(
        "target", nargs="?", default="", help="where to write it here (default: its name)"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def _get(notebook: Notebook, options: argparse.Namespace) -> None:
    name = PurePosixPath(options.path).name
    target = Path(_target(options.target, name)).expanduser()
    if target.is_dir():
        target = target / name
    if target.exists() and not options.force:
        raise MagicError(f"{target} is there already; --force replaces it")
    known = notebook.find(options)
    if known.box.files.info(options.path).type == DIRECTORY:
        raise MagicError(f"{options.path} is a directory; get its files one by one")
    count = known.box.files.download(options.path, target)
    write(f"wrote {size(count)} to {target}\n")


def _target(given: str, name: str) -> str:
    if given.endswith("/"):
        return given + name
    return given or name


def _ls_arguments(parser: Parser) -> None:
    parser.add_argument("path", nargs="?", default="", help="a directory (default: the home)")


def _ls(notebook: Notebook, options: argparse.Namespace) -> None:
    entries = notebook.find(options).box.files.list(options.path)
    rows = [
        (
            one_line(entry.name) + ("/" if entry.type == DIRECTORY else ""),
            "" if entry.type == DIRECTORY else size(entry.size),
            f"{entry.modified_time:%Y-%m-%d %H:%M}" if entry.modified_time else "",
            entry.permissions,
            entry.owner,
        )
        for entry in entries
    ]
    plain = "\n".join(row[0] for row in rows) or "(empty)"
    show_html(table(["name", "size", "modified", "permissions", "owner"], rows), plain)


def _open_arguments(parser: Parser) -> None:
    parser.add_argument("path", help="a file of the sandbox")


def _open(notebook: Notebook, options: argparse.Namespace) -> None:
    files = notebook.find(options).box.files
    found = files.info(options.path)
    if found.type == DIRECTORY:
        raise MagicError(f"{options.path} is a directory; %sbx ls {options.path} lists it")
    if found.size > _MAX_SHOWN:
        raise _too_large(options.path, size(found.size))
    # A link may lead to a larger file, or the file may have grown.
    content = blocking_read_at_most(files, options.path, _MAX_SHOWN)
    if content is None:
        raise _too_large(options.path, f"more than {size(_MAX_SHOWN)}")
    name = _FORMATS.get(PurePosixPath(options.path).suffix.lower(), "text")
    if name in ("png", "jpeg"):
        fields = {name: base64.b64encode(content).decode()}
    else:
        fields = {name: content.decode("utf-8", "replace")}
    if name == "text":
        write(clean(fields["text"])[0])
    else:
        show_bundle(safe_bundle(fields))


def _too_large(path: str, has: str) -> MagicError:
    return MagicError(f"{path} has {has}; up to {size(_MAX_SHOWN)} are shown in a cell")


FILE_COMMANDS: Final[dict[str, Command]] = {
    "put": command("put", "Copy a file into a sandbox.", _put, _put_arguments),
    "get": command("get", "Copy a file out of a sandbox.", _get, _get_arguments),
    "ls": command("ls", "List a directory of a sandbox.", _ls, _ls_arguments),
    "open": command(
        "open", "Show a file of a sandbox: text, a picture or a page.", _open, _open_arguments
    ),
}
