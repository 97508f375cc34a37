"""``jupyter sbx env``, ``doctor``, ``info`` and ``stop``: the shared engine and this machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.cli.calls import call_platform, running_engine
from sbx_jupyter.cli.connections import add_option, resolve
from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.cli.processes import show_processes
from sbx_jupyter.errors import SbxError, UnavailableError, see
from sbx_jupyter.protocol.locations import default_data_dir

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands
    from sbx_jupyter.client.api.platform import PlatformClient

_NO_REFLINK: Final = (
    "no, so snapshots copy; `jupyter sbx storage create --size 50G` makes a disk that can and moves"
    f" the data there{see('storage')}"
)
_IDS: Final = {
    "own": "own; each sandbox has host ids of its own",
    "shared": "shared; what the kernel counts for each id, all sandboxes use up together",
}
_SERVED_BY: Final = {
    "separate": "served by a user without privileges; a helper of root makes the sandboxes",
    "root": "served by root; a broken parser has the machine; c.SbxEngine.user_id can change that"
    f"{see('threat-model')}",
    "user": "served by the user who started the engine",
    None: "no engine runs",
}
_STOP_SECONDS: Final = 60.0


def add_to(commands: Commands) -> None:
    """Add the commands about the engine."""
    env = add_command(
        commands, "env", "print the variables with which clients use a deployment", show_env
    )
    add_option(env)
    doctor = add_command(
        commands, "doctor", "report how this machine can isolate sandboxes", show_isolation
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--processes",
        action="store_true",
        help="list the processes of the running engine with their ids and capabilities instead",
    )
    doctor.add_argument(
        "--apparmor",
        action="store_true",
        help="print an AppArmor profile that lets this Python make user namespaces instead",
    )
    info = add_command(commands, "info", "describe the running engine", show_info)
    info.add_argument("--json", action="store_true", help="print JSON")
    add_command(commands, "stop", "stop the shared engine and its sandboxes", stop_engine)


def show_env(options: argparse.Namespace) -> int:
    """Print ``export`` lines for a shell; starts the shared engine if it is meant and none runs."""
    from sbx_jupyter.client.connection.environment import client_environment

    for name, value in client_environment(resolve(options, start=True), os.environ).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def show_isolation(options: argparse.Namespace) -> int:
    """Print the isolation that this machine supports, and what to install or set for more."""
    from sbx_jupyter.client.connection.bundled import check_platform

    check_platform()
    if options.processes:
        return show_processes(options)
    from sbx_jupyter.isolation import apparmor

    if options.apparmor:
        print(apparmor.profile(apparmor.interpreter()), end="")
        return 0
    from sbx_jupyter.isolation.limits import TITLES
    from sbx_jupyter.isolation.tiers import detect

    folder = options.data_dir or default_data_dir()
    report: dict[str, Any] = {**detect(folder).to_json(), "served_by": _served_by(folder)}
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    _say_weaker(_tier_in_use(folder), report["tier"])
    print(f"tier:    {report['tier']}")
    print(f"users:   {report['users']}")
    print(f"ids:     {_IDS[report['ids']]}")
    print(f"clients: {_SERVED_BY[report['served_by']]}")
    print(f"freezer: {report['freezer']}")
    print(f"reflink: {'yes' if report['reflink'] else _NO_REFLINK}")
    for resource, holder in report["limits"].items():
        print(f"{TITLES[resource] + ':':26}{report['limit_words'][resource]} ({holder})")
    for missing in report["missing"]:
        print(f"missing: {missing['what']}\n         {missing['remedy']}")
        print(f"        {see(missing['page'])}")
    print(f"network: {_describe_network(report)}")
    if apparmor.restricts_namespaces() and report["tier"] != "namespaces":
        _print_profile()
    return 0


def _print_profile() -> None:
    """The AppArmor profile that would allow more, and how to load and to remove it."""
    from sbx_jupyter.isolation import apparmor

    program = apparmor.interpreter()
    print(f"\nAppArmor profile for {program}:\n\n{apparmor.profile(program)}")
    print(f"load:    {apparmor.load_command()}")
    print(f"remove:  {apparmor.remove_command()}")
    if apparmor.is_shared(program):
        print(
            "It holds for everything that this program runs. For sbx-jupyter alone, use an "
            "environment with a Python of its own: python3 -m venv --copies"
        )


def _tier_in_use(data_dir: Path) -> str | None:
    """The tier of the running engine; ``None`` when none runs or it does not answer."""
    from sbx_jupyter.client.connection.bundled import find_engine

    found = find_engine(data_dir)
    if found is None:
        return None

    async def work(platform: PlatformClient) -> dict[str, Any] | None:
        return await platform.engine_info()

    try:
        return (call_platform(found, work) or {}).get("tier")
    except SbxError:
        return None


def _say_weaker(used: str | None, best: str) -> None:
    """Say in red where sandboxes are not isolated, and where an engine isolates less than it could.

    ``used`` is the tier of the running engine, ``None`` without one; ``best`` is what works here.
    """
    if used == "none":
        _say_in_red("NOT ISOLATED: sandboxes of the running engine can do all that you may.")
        if best != "none":
            print(f"Its settings ask for the tier none. This machine could give: {best}")
    elif best == "none":
        _say_in_red(
            "NOT ISOLATED: sandboxes of an engine that you start here could not be isolated."
        )
        print(f"It starts only when the tier none is asked for by name{see('containers')}.")
    elif used not in (None, best):
        print(f"The running engine uses the tier {used}, as its settings ask for. It could be:")


def _say_in_red(text: str) -> None:
    """Print a line, in red where it goes to a terminal."""
    print(f"\033[1;31m{text}\033[0m" if sys.stdout.isatty() else text)


def _served_by(data_dir: Path) -> str | None:
    """The user that serves clients, as in ``/engine/info``; ``None`` when no engine runs."""
    from sbx_jupyter.client.connection.bundled import find_engine

    found = find_engine(data_dir)
    if found is None:
        return None
    owner = Path(f"/proc/{found.pid}/task").stat().st_uid
    if owner == 0:
        return "root"
    return "separate" if data_dir.stat().st_uid == 0 else "user"


def _describe_network(report: dict[str, Any]) -> str:
    if report["tier"] == "landlock":
        return "proxy" if report["loopback"] else "none"
    if report["full_network"]:
        return "proxy, or full with --network=full"
    missing = report["full_network_missing"]
    steps = "".join(f"\n         {item['what']}: {item['remedy']}" for item in missing)
    return f"proxy; for --network=full:{steps}{see('network')}"


def show_info(options: argparse.Namespace) -> int:
    """Describe the running engine."""
    found = running_engine(options)

    async def work(platform: PlatformClient) -> dict[str, Any] | None:
        return await platform.engine_info()

    info = {"url": found.url, "pid": found.pid, **(call_platform(found, work) or {})}
    if options.json:
        print(json.dumps(info, indent=2))
        return 0
    for name in ("url", "pid", "version", "tier", "network", "sandboxes"):
        print(f"{name + ':':11}{info.get(name, '')}")
    return 0


def stop_engine(options: argparse.Namespace) -> int:
    """Stop the shared engine and wait until it has ended.

    Raises ``UnavailableError`` when it still runs after a minute.
    """
    from sbx_jupyter.agent.procfs import start_time_of

    found = running_engine(options)
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while start_time_of(found.pid) is not None:
        if time.monotonic() > deadline:
            raise UnavailableError(f"the engine (process {found.pid}) does not stop")
        time.sleep(0.02)
    return 0
