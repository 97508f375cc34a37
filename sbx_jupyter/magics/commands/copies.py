"""Subcommands for snapshots and forks of a sandbox, and for what it changed."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client import Sandbox
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.magics.cells.changes import change_tree
from sbx_jupyter.magics.cells.usage import is_of_the_code
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.parsing import Parser, variable
from sbx_jupyter.magics.screen import show_html, write
from sbx_jupyter.magics.session import LIFETIME

if TYPE_CHECKING:
    import argparse

MAX_FORKS: Final = 100


def _snapshot_arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", help="a name for the snapshot")


def _snapshot(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.find(options)
    known.last_snapshot = known.box.snapshot(options.name).snapshot_id
    if known is notebook.session.current:
        known.remember()
    write(
        f"captured the files of {known.label}; go back with: %sbx restore {known.last_snapshot}\n"
    )


def _restore_arguments(parser: Parser) -> None:
    parser.add_argument("snapshot", help="the id or the name of a snapshot")
    parser.add_argument("name", nargs="?", default="", help="a name for the new sandbox")


def _restore(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.session.create(options.name, template=options.snapshot)
    known.last_snapshot = options.snapshot
    known.remember()
    write(
        f"created {known.label} ({known.box.sandbox_id}) with the files of {options.snapshot}, in "
        "use from now on; it has no variables yet\n"
    )


def _fork_arguments(parser: Parser) -> None:
    parser.add_argument("count", nargs="?", type=int, default=1, help="how many (default: 1)")
    parser.add_argument(
        "--into", type=variable, metavar="VAR", help="keep the list of sandboxes in this variable"
    )


def _fork(notebook: Notebook, options: argparse.Namespace) -> None:
    if not 1 <= options.count <= MAX_FORKS:
        raise MagicError(f"{options.count} forks: there can be 1 to {MAX_FORKS} at once")
    session = notebook.session
    source = notebook.find(options)
    boxes = source.box.fork(options.count, timeout=LIFETIME)
    taken = {(item.metadata or {}).get("name") for item in Sandbox.list(config=session.config)}
    free = (name for at in count(1) if (name := f"{source.label}-{at}") not in taken)
    made = [session.add(box, name) for box, name in zip(boxes, free, strict=False)]
    for fork in made:
        with contextlib.suppress(NotFoundError):  # deployments that name no sandboxes
            fork.box.rename(fork.name)
    session.forks.setdefault(source.box.sandbox_id, []).extend(made)
    if options.into:
        notebook.shell.user_ns[options.into] = boxes
    names = ", ".join(fork.label for fork in made)
    write(
        f"forked {source.label}: {names}. Forks have its files and none of its variables; "
        "run a cell in all of them with: %%sbx --all\n"
    )


def _diff_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--since", metavar="SNAPSHOT", help="compare with a snapshot (default: the template)"
    )


def _diff(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.find(options)
    diff = known.box.diff(options.since)
    changes = [change for change in diff.changes if is_of_the_code(change.path)]
    show_html(*change_tree(known.box, changes, truncated=diff.truncated, is_open=True))


COPY_COMMANDS: Final[dict[str, Command]] = {
    "snapshot": command(
        "snapshot",
        "Capture a sandbox, so that another can start from its files.",
        _snapshot,
        _snapshot_arguments,
    ),
    "restore": command(
        "restore",
        "Start a sandbox with the files of a snapshot, and use it.",
        _restore,
        _restore_arguments,
        takes_sandbox=False,
    ),
    "fork": command("fork", "Start copies of a sandbox's files.", _fork, _fork_arguments),
    "diff": command(
        "diff", "Show which files a sandbox changed.", _diff, _diff_arguments, takes_name=True
    ),
}
