"""Writes the pages of the reference that come from the code."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traitlets import HasTraits

PYTHON_FACE = (
    "Sandbox",
    "Sandbox.files",
    "Sandbox.commands",
    "Sandbox.pty",
    "Sandbox.git",
    "AsyncSandbox",
    "CommandHandle",
    "CommandResult",
    "Execution",
    "Context",
    "ConnectionConfig",
    "SbxError",
    "SandboxView",
    "FileBrowser",
    "Terminal",
    "MetricsChart",
)


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {
        "settings.md": settings(),
        "command-line.md": command_line(),
        "magics-reference.md": magics(),
        "rest.md": rest(),
        "python.md": python(),
    }


def settings() -> str:
    """All traits that a configuration file may set."""
    from sbx_jupyter.server.extension import SbxExtension
    from sbx_jupyter.service.app import SbxEngine

    return "\n".join(
        [
            "# Settings",
            "",
            "Set `c.SbxEngine.*` in `jupyter_sbx_config.py` and `c.SbxExtension.*` in"
            " `jupyter_server_config.py`, where Jupyter looks for configuration"
            " (`jupyter --paths`). Every setting has a default that works.",
            "",
            "## The engine",
            "",
            *_traits(SbxEngine),
            "## The server extension",
            "",
            *_traits(SbxExtension),
        ]
    )


def _traits(owner: type[HasTraits]) -> Iterator[str]:
    """The settings of a class of ours and of its bases of ours, not those of Jupyter."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith("sbx_jupyter.")]
    names = {name for base in ours for name in vars(base)}
    for name, trait in sorted(owner.class_traits(config=True).items()):
        if name not in names:
            continue
        yield f"### `c.{owner.__name__}.{name}`\n"
        yield f"{_as_markdown(trait.help)}\n"
        yield f"{trait.info().capitalize()}; default: `{trait.default()!r}`.\n"


def command_line() -> str:
    """The help of ``jupyter sbx`` and of all its commands."""
    from sbx_jupyter.cli.main import command_parser

    lines = [
        "# Command line",
        "",
        "`jupyter sbx engine --help-all` lists all settings as options.",
        "",
    ]
    lines += _commands(command_parser(), skip=("engine",))
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser, skip: tuple[str, ...] = ()) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if name in skip:
                    continue
                if not any(isinstance(a, argparse._SubParsersAction) for a in command._actions):
                    yield from _help_of(command)
                yield from _commands(command)


def magics() -> str:
    """The help of ``%%sbx`` and of all subcommands of ``%sbx``."""
    from sbx_jupyter.magics.cells.cell_options import PARSER
    from sbx_jupyter.magics.commands.registry import COMMANDS

    lines = [
        "# Options of the magics",
        "",
        "What they do is told in [Notebook magics](magics.md).",
        "",
    ]
    for parser in (PARSER, *(command.parser for command in COMMANDS.values())):
        lines += _help_of(parser)
    return "\n".join(lines)


def _help_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `{parser.prog}`\n"
    yield f"```text\n{parser.format_help().rstrip()}\n```\n"


def rest() -> str:
    """The operations of the engine's description, which it serves at ``/openapi.json``."""
    from sbx_jupyter import __version__
    from sbx_jupyter.service.platform.openapi import describe
    from sbx_jupyter.service.server import PLATFORM_ROUTES

    description = json.loads(describe(__version__, PLATFORM_ROUTES))
    lines = [
        "# REST",
        "",
        "What an engine serves. It gives the same as OpenAPI at `/openapi.json`, with all fields;"
        " [the interface](interface.md) says what clients rely on. Calls of the platform need the"
        " header `X-API-Key`, those of a sandbox its access token.",
        "",
    ]
    for path, verbs in sorted(description["paths"].items()):
        for verb, operation in verbs.items():
            lines += _operation(path, verb, operation, description["components"])
    return "\n".join(lines)


def _operation(
    path: str, verb: str, operation: dict[str, Any], components: dict[str, Any]
) -> Iterator[str]:
    yield f"## `{verb.upper()} {path}`\n"
    yield f"{operation.get('summary', 'See the interface')}.\n"
    for parameter in operation.get("parameters", ()):
        parameter = _looked_up(parameter, components)
        yield f"- `{parameter['name']}` ({parameter['in']}) {parameter.get('description', '')}"
    for kind in operation.get("requestBody", {}).get("content", {}).values():
        if fields := _fields(kind.get("schema", {}), components):
            yield f"- Body: {fields}"
    answers = ", ".join(f"`{status}`" for status in operation.get("responses", ()))
    yield f"- Answers: {answers}\n"


def _looked_up(record: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The record, or the one of ``components`` that it refers to."""
    if "$ref" not in record:
        return record
    _, _, kind, name = record["$ref"].split("/")
    return components[kind][name]


def _fields(schema: dict[str, Any], components: dict[str, Any]) -> str:
    found = _looked_up(schema, components)
    required = set(found.get("required", ()))
    names = found.get("properties", {})
    return ", ".join(f"`{name}`{' (required)' if name in required else ''}" for name in names)


def python() -> str:
    """The public names of the package."""
    lines = ["# Python", "", "All names are imported from `sbx_jupyter`.", ""]
    for name in PYTHON_FACE:
        lines += [f"## `{name}`", "", *_members(name)]
    return "\n".join(lines)


def _owner(name: str) -> type:
    """The class of a public name, or of what a sandbox has under one."""
    import sbx_jupyter
    from sbx_jupyter.client.files.sync_files import SyncFiles
    from sbx_jupyter.client.git.sync_git import SyncGit
    from sbx_jupyter.client.processes.sync_commands import SyncCommands, SyncPtys

    parts = {"files": SyncFiles, "commands": SyncCommands, "pty": SyncPtys, "git": SyncGit}
    _, dot, part = name.partition(".")
    return parts[part] if dot else getattr(sbx_jupyter, name)


def _members(name: str) -> Iterator[str]:
    """A class with its public methods and properties, as headings and docstrings."""
    owner = _owner(name)
    yield f"{_as_markdown(inspect.getdoc(owner) or '')}\n"
    ours = [base for base in owner.__mro__ if base.__module__.startswith("sbx_jupyter.")]
    for member in sorted({name for base in ours for name in vars(base) if name[0] != "_"}):
        value = inspect.getattr_static(owner, member)
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        text = inspect.getdoc(value)
        if isinstance(value, property) and text:
            yield f"- **`{member}`**: {_in_one_line(text)}"
        elif callable(value) and text:
            yield f"- **`{member}{_signature(value)}`**: {_in_one_line(text)}"
    yield ""


def _signature(function: Any) -> str:
    """The parameters as they are written, without types of other modules' full names."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(...)"
    return (
        "("
        + ", ".join(
            _parameter(p) for p in signature.parameters.values() if p.name not in ("self", "cls")
        )
        + ")"
    )


def _parameter(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return f"{star}{parameter.name}{default}"


def _in_one_line(text: str) -> str:
    return " ".join(_as_markdown(text).split())


def _as_markdown(text: str) -> str:
    """Docstrings and help texts as Markdown: one backtick for code, nothing read as HTML."""
    text = inspect.cleandoc(text).replace("``", "`")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([<>*_\[\]$])", r"\\\1", part) for part in parts
    )
