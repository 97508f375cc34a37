"""Subcommands that show a sandbox: widgets, ports, and what isolates it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] - untyped there
)

import sbx_jupyter
from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.display.reports import NOT_ISOLATED, card, table
from sbx_jupyter.display.text import one_line
from sbx_jupyter.errors import SbxError, see
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.screen import show_html, write
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, PROXY_PORT, RUNTIME_PORT
from sbx_jupyter.protocol.sockets import READ_SOCKETS, listening_ports

if TYPE_CHECKING:
    import argparse

_OURS: Final = frozenset({RUNTIME_PORT, INTERPRETER_PORT, PROXY_PORT})


def _terminal(notebook: Notebook, options: argparse.Namespace) -> None:
    display(sbx_jupyter.Terminal(notebook.find(options).box))


def _files(notebook: Notebook, options: argparse.Namespace) -> None:
    display(sbx_jupyter.FileBrowser(notebook.find(options).box))


def _metrics(notebook: Notebook, options: argparse.Namespace) -> None:
    display(sbx_jupyter.MetricsChart(notebook.find(options).box))


def _ports(notebook: Notebook, options: argparse.Namespace) -> None:
    box = notebook.find(options).box
    listed = box.commands.run(READ_SOCKETS, timeout=10)
    ports = sorted(listening_ports(listed.stdout) - _OURS)
    rows = [(str(port), box.get_host(port)) for port in ports]
    plain = "\n".join(" ".join(row) for row in rows) or "nothing listens"
    show_html(table(["port", "address"], rows) if rows else plain, plain)


def _env(notebook: Notebook, _options: argparse.Namespace) -> None:
    config = Portal.current().platform(notebook.session.config).config
    variables = {
        "E2B_API_URL": config.api_url,
        "E2B_SANDBOX_URL": config.sandbox_url,
        "E2B_DOMAIN": config.domain,
        "E2B_API_KEY": config.api_key,
    }
    given = {name: value for name, value in variables.items() if value}
    os.environ.update(given)
    write(
        f"set {', '.join(given)} in this kernel, for the e2b packages ({config.api_url}); "
        "the key is not shown\n"
    )


def _doctor(notebook: Notebook, _options: argparse.Namespace) -> None:
    portal = Portal.current()
    try:
        platform = portal.platform(notebook.session.config)
        described = portal.call(platform.engine_info())
    except SbxError as error:
        raise MagicError(f"the engine does not answer: {one_line(error.message, 600)}") from None
    if described is None:
        write(f"{platform.config.api_url} does not tell how it isolates sandboxes\n")
        return
    report: dict[str, Any] = described.get("isolation", described)
    report = {**report, "tier": described.get("tier", report.get("tier"))}
    rows = [("address", platform.config.api_url), *_facts(report)]
    warning = NOT_ISOLATED if report["tier"] == "none" else ""
    plain = "\n".join([warning] * bool(warning) + [f"{name}: {text}" for name, text in rows])
    show_html(card("Isolation of sandboxes", rows, warning=warning), plain)


def _facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [(name, str(report[name])) for name in ("tier", "users") if name in report]
    facts += [(f"{what} limited by", str(how)) for what, how in report.get("limits", {}).items()]
    facts += [
        ("missing", f"{item.get('what')}: {item.get('remedy')}{see(item.get('page', 'tiers'))}")
        for item in report.get("missing", [])
    ]
    return facts


VIEW_COMMANDS: Final[dict[str, Command]] = {
    "terminal": command("terminal", "Show a terminal of a sandbox.", _terminal, takes_name=True),
    "files": command("files", "Show the files of a sandbox.", _files, takes_name=True),
    "metrics": command(
        "metrics", "Show a chart of what a sandbox uses.", _metrics, takes_name=True
    ),
    "ports": command(
        "ports", "List the ports on which a sandbox listens.", _ports, takes_name=True
    ),
    "env": command(
        "env",
        "Set the variables with which the e2b packages find this deployment, in this kernel.",
        _env,
        takes_sandbox=False,
    ),
    "doctor": command(
        "doctor", "Show how sandboxes are isolated here.", _doctor, takes_sandbox=False
    ),
}
