"""The commands of ``jupyter sbx`` other than the engine itself; each imports what it needs."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, UnavailableError
from sbx_jupyter.protocol.locations import default_data_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sbx_jupyter.client.platform import PlatformClient
    from sbx_jupyter.protocol.locations import ConnectionFile

_NO_REFLINK: Final = "no; `jupyter sbx storage create --size 50G` makes a disk that can"
_STOP_SECONDS: Final = 60.0
_LOCAL: Final = ("127.0.0.1", "localhost")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe all commands."""

    def command(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Any:
        parser = commands.add_parser(name, help=text, description=text)
        parser.add_argument("--data-dir", type=Path, help="the state of the engine")
        parser.set_defaults(run=run)
        return parser

    command("env", "print the variables that point clients at the shared engine", show_env)
    doctor = command("doctor", "say how this machine can isolate sandboxes", diagnose)
    doctor.add_argument("--json", action="store_true", help="for programs")
    info = command("info", "describe the running engine", show_info)
    info.add_argument("--json", action="store_true", help="for programs")
    command("stop", "stop the shared engine and its sandboxes", stop)
    listing = command("list", "list sandboxes", list_sandboxes)
    listing.add_argument("--json", action="store_true", help="for programs")
    create = command("create", "create a sandbox and print its id", create_sandbox)
    create.add_argument("template", nargs="?", default="base")
    create.add_argument("--timeout", type=int, default=300, help="seconds until it ends")
    create.add_argument("--metadata", action="append", default=[], metavar="KEY=VALUE")
    create.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    kill = command("kill", "end sandboxes", kill_sandboxes)
    kill.add_argument("sandbox", nargs="*")
    kill.add_argument("--all", action="store_true", help="every sandbox")
    execute = command("exec", "run a command in a sandbox", execute_command)
    execute.add_argument("--user", help="whom to run it as")
    execute.add_argument("--cwd", help="where to run it")
    execute.add_argument("sandbox")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="command")
    logs = command("logs", "print what happened to a sandbox", print_logs)
    logs.add_argument("sandbox")
    logs.add_argument("--limit", type=int, default=1000)


# Commands about the engine.


def show_env(options: argparse.Namespace) -> int:
    """Print ``export`` lines; starts the shared engine if none runs."""
    from sbx_jupyter.client.bundled import ensure_engine

    found = ensure_engine(options.data_dir)
    no_proxy = [part for part in os.environ.get("NO_PROXY", "").split(",") if part]
    no_proxy += [name for name in _LOCAL if name not in no_proxy]
    variables = {
        "E2B_API_URL": found.url,
        "E2B_SANDBOX_URL": found.url,
        "E2B_API_KEY": found.api_key,
        "E2B_VOLUME_API_URL": found.url,
        "NO_PROXY": ",".join(no_proxy),
        "no_proxy": ",".join(no_proxy),
    }
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def diagnose(options: argparse.Namespace) -> int:
    """Print what isolation this machine gives, and the commands that would give more."""
    from sbx_jupyter.isolation.tiers import detect

    report = detect(options.data_dir or default_data_dir()).to_json()
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    print(f"tier:    {report['tier']}")
    print(f"users:   {report['users']}")
    print(f"freezer: {report['freezer']}")
    print(f"reflink: {'yes' if report['reflink'] else _NO_REFLINK}")
    for what, how in report["limits"].items():
        print(f"{what + ' limit by:':20}{how}")
    for missing in report["missing"]:
        print(f"missing: {missing['what']}\n         {missing['remedy']}")
    print(f"network: {_say_network(report)}")
    return 0


def _say_network(report: dict[str, Any]) -> str:
    if report["tier"] == "landlock":
        return "none"
    if report["full_network"]:
        return "proxy, or full with --network=full"
    missing = report["full_network_missing"]
    steps = "".join(f"\n         {item['what']}: {item['remedy']}" for item in missing)
    return f"proxy; for --network=full:{steps}"


def show_info(options: argparse.Namespace) -> int:
    """Describe the running engine."""
    found = running_engine(options)

    async def work(platform: PlatformClient) -> dict[str, Any] | None:
        return await platform.engine_info()

    info = {"url": found.url, "pid": found.pid, **(with_platform(found, work) or {})}
    if options.json:
        print(json.dumps(info, indent=2))
        return 0
    for name in ("url", "pid", "version", "tier", "network", "sandboxes"):
        print(f"{name + ':':11}{info.get(name, '')}")
    return 0


def stop(options: argparse.Namespace) -> int:
    """Ask the shared engine to stop and wait until it is gone."""
    found = running_engine(options)
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _is_alive(found.pid):
        if time.monotonic() > deadline:
            raise UnavailableError(f"the engine (process {found.pid}) does not stop")
        time.sleep(0.02)
    return 0


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


# Commands about sandboxes.


def list_sandboxes(options: argparse.Namespace) -> int:
    """Print one line per sandbox."""
    import msgspec

    async def work(platform: PlatformClient) -> list[Any]:
        return [sandbox async for sandbox in platform.list()]

    found = with_platform(running_engine(options), work)
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
    """Create a sandbox in the shared engine, which is started if none runs."""
    from sbx_jupyter.client.bundled import ensure_engine
    from sbx_jupyter.protocol.platform import NewSandbox

    request = NewSandbox(
        template_id=options.template,
        timeout=options.timeout,
        metadata=_pairs(options.metadata),
        env_vars=_pairs(options.env),
    )

    async def work(platform: PlatformClient) -> str:
        return (await platform.create(request)).sandbox_id

    print(with_platform(ensure_engine(options.data_dir), work))
    return 0


def kill_sandboxes(options: argparse.Namespace) -> int:
    """End sandboxes; 1 when one of them does not exist."""
    if not options.sandbox and not options.all:
        raise InvalidArgumentError("name a sandbox, or use --all")

    async def work(platform: PlatformClient) -> list[str]:
        ids = list(options.sandbox)
        if options.all:
            ids = [sandbox.sandbox_id async for sandbox in platform.list()]
        return [each for each in ids if not await platform.kill(each)]

    unknown = with_platform(running_engine(options), work)
    if unknown and not options.all:
        raise NotFoundError(f"there is no sandbox {', '.join(unknown)}")
    return 0


def execute_command(options: argparse.Namespace) -> int:
    """Run a command and pass on its output and its exit code."""
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

    code = with_platform(running_engine(options), work)
    return code if code >= 0 else 128 - code


def print_logs(options: argparse.Namespace) -> int:
    """Print the log of a sandbox, oldest line first."""

    async def work(platform: PlatformClient) -> list[Any]:
        return await platform.logs(options.sandbox, limit=options.limit)

    for entry in with_platform(running_engine(options), work):
        fields = "".join(f" {name}={value}" for name, value in entry.fields.items())
        print(f"{entry.timestamp:%Y-%m-%d %H:%M:%S} {entry.level:5} {entry.message}{fields}")
    return 0


# What they share.


def running_engine(options: argparse.Namespace) -> ConnectionFile:
    """The shared engine; raises ``UnavailableError`` when none runs."""
    from sbx_jupyter.client.bundled import find_engine

    found = find_engine(options.data_dir)
    if found is None:
        raise UnavailableError("no engine is running; `jupyter sbx env` starts it")
    return found


def with_platform(
    found: ConnectionFile, work: Callable[[PlatformClient], Coroutine[Any, Any, Any]]
) -> Any:
    from sbx_jupyter.client.config import ConnectionConfig
    from sbx_jupyter.client.platform import PlatformClient

    async def run() -> Any:
        async with PlatformClient(ConnectionConfig.from_connection_file(found)) as platform:
            return await work(platform)

    return asyncio.run(run())


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgumentError(f"'{text}' is not NAME=VALUE")
        pairs[name] = value
    return pairs
