"""``jupyter sbx list``, ``create``, ``kill``, ``exec`` and ``logs``."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Final

from sbx_jupyter.cli.calls import call_deployment
from sbx_jupyter.cli.connections import add_option, resolve
from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.display.text import one_line
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from sbx_jupyter.cli.parsers import Commands
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.protocol.platform import ListedSandbox, SandboxLogEntry


_LONGEST_LINE: Final = 10_000
"""Characters of one entry of a log that are printed."""


def add_to(commands: Commands) -> None:
    """Add the commands about sandboxes."""
    listing = add_command(commands, "list", "list sandboxes", list_sandboxes)
    listing.add_argument("--json", action="store_true", help="print JSON")
    create = add_command(commands, "create", "create a sandbox and print its id", create_sandbox)
    create.add_argument("template", nargs="?", default="base")
    create.add_argument("--timeout", type=int, default=300, help="seconds until it ends")
    create.add_argument("--metadata", action="append", default=[], metavar="KEY=VALUE")
    create.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    kill = add_command(commands, "kill", "end sandboxes", kill_sandboxes)
    kill.add_argument("sandbox", nargs="*")
    kill.add_argument("--all", action="store_true", help="every sandbox")
    execute = add_command(commands, "exec", "run a command in a sandbox", execute_command)
    execute.add_argument("--user", help="the user to run it as")
    execute.add_argument("--cwd", help="the directory to run it in")
    execute.add_argument("sandbox")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="command")
    logs = add_command(commands, "logs", "print the log of a sandbox", print_logs)
    logs.add_argument("sandbox")
    for command in (listing, create, kill, execute, logs):
        add_option(command)
    logs.add_argument("--limit", type=int, default=1000, help="at most this many entries")


def list_sandboxes(options: argparse.Namespace) -> int:
    """Print one line per sandbox."""
    import msgspec

    async def work(platform: PlatformClient) -> list[ListedSandbox]:
        return [sandbox async for sandbox in platform.list()]

    found = call_deployment(resolve(options), work)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return 0
    if found:
        print(f"{'SANDBOX':22} {'TEMPLATE':22} {'STATE':8} {'STARTED':20} {'ENDS':20}")
    for item in found:
        started, ends = (f"{when:%Y-%m-%d %H:%M:%S}" for when in (item.started_at, item.end_at))
        name = item.alias or item.template_id
        print(f"{item.sandbox_id:22} {name:22} {item.state:8} {started:20} {ends:20}")
    return 0


def create_sandbox(options: argparse.Namespace) -> int:
    """Create a sandbox; starts the shared engine if that is to be used and none runs."""
    from sbx_jupyter.protocol.platform import NewSandbox

    request = NewSandbox(
        template_id=options.template,
        timeout=options.timeout,
        metadata=_pairs(options.metadata),
        env_vars=_pairs(options.env),
    )

    async def work(platform: PlatformClient) -> str:
        return (await platform.create(request)).sandbox_id

    print(call_deployment(resolve(options, start=True), work))
    return 0


def kill_sandboxes(options: argparse.Namespace) -> int:
    """End sandboxes; raises ``NotFoundError`` when one that was named does not exist."""
    if not options.sandbox and not options.all:
        raise InvalidArgumentError("name a sandbox, or use --all")

    async def work(platform: PlatformClient) -> list[str]:
        ids = list(options.sandbox)
        if options.all:
            ids = [sandbox.sandbox_id async for sandbox in platform.list()]
        return [each for each in ids if not await platform.kill(each)]

    unknown = call_deployment(resolve(options), work)
    if unknown and not options.all:
        raise NotFoundError(f"there is no sandbox {', '.join(unknown)}")
    return 0


def execute_command(options: argparse.Namespace) -> int:
    """Run a command, print its output and return its exit code."""
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise InvalidArgumentError("give a command to run")
    command = argv[0] if len(argv) == 1 else shlex.join(argv)

    async def work(platform: PlatformClient) -> int:
        from sbx_jupyter.client.sandbox import AsyncSandbox

        sandbox = await AsyncSandbox.connect(options.sandbox, platform=platform)
        try:
            result = await sandbox.commands.run(
                command,
                cwd=options.cwd,
                user=options.user,
                timeout=None,
                on_stdout=lambda text: print(text, end="", flush=True),
                on_stderr=lambda text: print(text, end="", flush=True, file=sys.stderr),
            )
        finally:
            await sandbox.aclose()
        return result.exit_code

    code = call_deployment(resolve(options), work)
    return code if code >= 0 else 128 - code


def print_logs(options: argparse.Namespace) -> int:
    """Print the log of a sandbox, oldest line first."""

    async def work(platform: PlatformClient) -> list[SandboxLogEntry]:
        return await platform.logs(options.sandbox, limit=options.limit)

    for entry in call_deployment(resolve(options), work):
        fields = "".join(f" {name}={value}" for name, value in entry.fields.items())
        text = one_line(f"{entry.message}{fields}", _LONGEST_LINE)
        print(f"{entry.timestamp:%Y-%m-%d %H:%M:%S} {entry.level:5} {text}")
    return 0


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgumentError(f"'{text}' is not NAME=VALUE")
        pairs[name] = value
    return pairs
