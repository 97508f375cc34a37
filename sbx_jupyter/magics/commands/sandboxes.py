"""Subcommands that create, choose, list and end sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.client import Sandbox
from sbx_jupyter.display.reports import table
from sbx_jupyter.display.text import one_line
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.known import TEMPLATE
from sbx_jupyter.magics.parsing import Parser, seconds
from sbx_jupyter.magics.screen import show_html, write
from sbx_jupyter.magics.session import LIFETIME

if TYPE_CHECKING:
    import argparse


def _create_arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", default="", help="a name for %%sbx and the panel")
    parser.add_argument("--template", default=TEMPLATE, help=f"default: {TEMPLATE}")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=float(LIFETIME),
        metavar="TIME",
        help="pause it this long after its last use, such as 90s, 30m or 2h (default: 1h)",
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="an environment variable"
    )
    parser.add_argument(
        "--no-internet", action="store_true", help="allow no connections to public addresses"
    )


def _create(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.session.create(
        options.name,
        template=options.template,
        timeout=int(options.timeout),
        envs=_pairs(options.env),
        allow_internet_access=not options.no_internet,
    )
    write(f"created {known.label} ({known.box.sandbox_id}), in use from now on\n")


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise MagicError(f"{text!r} is not NAME=VALUE")
        pairs[name] = value
    return pairs


def _use_arguments(parser: Parser) -> None:
    parser.add_argument("name", help="a sandbox by name, id or variable")


def _use(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.session.find(options.name)
    notebook.session.use(known)
    write(f"{known.label} ({known.box.sandbox_id}) is in use from now on\n")


def _list(notebook: Notebook, _options: argparse.Namespace) -> None:
    found = Sandbox.list(config=notebook.session.config)
    current = notebook.session.current
    rows = [
        (
            "*" if current is not None and current.box.sandbox_id == item.sandbox_id else "",
            one_line((item.metadata or {}).get("name", "")),
            item.sandbox_id,
            item.alias or item.template_id,
            item.state,
            f"{item.end_at:%Y-%m-%d %H:%M}",
        )
        for item in found
    ]
    plain = "\n".join(" ".join(filter(None, row)) for row in rows) or "no sandboxes"
    show_html(table(["", "name", "sandbox", "template", "state", "ends (UTC)"], rows), plain)


def _kill_arguments(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: the one in use")


def _kill(notebook: Notebook, options: argparse.Namespace) -> None:
    session = notebook.session
    if not options.names and session.current is None:
        raise MagicError("no sandbox is in use; name the one to end")
    for known in [session.find(name) for name in options.names or [None]]:
        known.box.kill()
        session.lose(known)
        if session.current is known:
            session.current = None
        write(f"ended {known.label}\n")


def _pause_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--files-only", action="store_true", help="keep the files, and end the processes"
    )


def _pause(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.find(options)
    known.box.pause(memory=not options.files_only)
    write(f"paused {known.label}; its next use resumes it\n")


def _resume(notebook: Notebook, options: argparse.Namespace) -> None:
    known = notebook.find(options)
    known.box.resume(timeout=LIFETIME)
    write(f"resumed {known.label}\n")


SANDBOX_COMMANDS: Final[dict[str, Command]] = {
    "create": command(
        "create",
        "Start a sandbox and use it from now on.",
        _create,
        _create_arguments,
        takes_sandbox=False,
    ),
    "use": command("use", "Choose the sandbox in use.", _use, _use_arguments, takes_sandbox=False),
    "list": command("list", "List your sandboxes.", _list, takes_sandbox=False),
    "kill": command(
        "kill",
        "End sandboxes and all that is in them.",
        _kill,
        _kill_arguments,
        takes_sandbox=False,
    ),
    "pause": command(
        "pause", "Save a sandbox and free its memory.", _pause, _pause_arguments, takes_name=True
    ),
    "resume": command("resume", "Resume a paused sandbox.", _resume, takes_name=True),
}
