"""Run the programs in ``clients``, each with its packages in an environment of its own.

Give names to run only some. Environments are kept in ``.integrations`` of the checkout, so that the
next run installs nothing. The last lines are a table with the versions. ``SBX_TEST_TIER`` chooses
the engine, by a name of ``tests/tiers/rows.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.engine_process import EngineProcess, engine_for_clients

CHECKOUT: Final = Path(__file__).resolve().parents[2]
CLIENTS: Final = Path(__file__).parent / "clients"
ENVIRONMENTS: Final = CHECKOUT / ".integrations"
INSTALL_SECONDS: Final = 1800
RUN_SECONDS: Final = 900


@dataclass(frozen=True)
class Integration:
    """A program in ``clients`` and the packages that it needs, the first of which names it."""

    script: str
    packages: tuple[str, ...]
    python: str = ""
    """The oldest Python that its packages take; empty for any that the product takes."""

    @property
    def name(self) -> str:
        return self.script.partition(".")[0]

    @property
    def is_node(self) -> bool:
        return self.script.endswith(".mjs")


INTEGRATIONS: Final = (
    Integration("inspect_ai.py", ("inspect-ai", "inspect-sandboxes"), python="3.12"),
    Integration("harbor.py", ("harbor[e2b]",), python="3.12"),
    Integration("langchain.py", ("langchain-e2b",)),
    Integration("smolagents.py", ("smolagents[e2b]",)),
    Integration("openai_agents.py", ("openai-agents[e2b]",)),
    Integration("code_sandboxes.py", ("code-sandboxes[e2b]",)),
    Integration("computesdk.mjs", ("@computesdk/e2b",)),
)


def main(names: list[str]) -> int:
    """Run all or the named integrations; the exit status is 1 if one failed."""
    chosen = [each for each in INTEGRATIONS if not names or each.name in names]
    rows: list[tuple[str, str, str]] = []
    with engine_for_clients("integrations") as engine:
        for integration in chosen:
            print(f"== {integration.name}", flush=True)
            rows.append((integration.name, *attempt(integration, engine)))
    print(f"\n{'PROGRAM':16} {'RESULT':10} VERSIONS")
    for name, result, versions in rows:
        print(f"{name:16} {result:10} {versions}")
    return int(any(result != "passed" for _, result, _ in rows))


def attempt(integration: Integration, engine: EngineProcess) -> tuple[str, str]:
    """Install and run one integration; its result and the versions of its packages."""
    folder = ENVIRONMENTS / integration.name
    try:
        command = install(integration, folder)
        script = str(CLIENTS / integration.script)
        if integration.is_node:  # modules are looked for beside the file
            script = str(folder / integration.script)
            Path(script).write_text((CLIENTS / integration.script).read_text())
        done = subprocess.run(
            [*command, script],
            env=environment(engine),
            cwd=folder,
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.CalledProcessError as error:
        return "no install", f"{error.cmd[0]}: exit status {error.returncode}"
    except subprocess.TimeoutExpired:
        return "too slow", ""
    return ("passed" if done.returncode == 0 else "failed"), versions(integration, folder)


def environment(engine: EngineProcess) -> dict[str, str]:
    """What leads any client of the interface to the engine."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    address = engine.url.partition("//")[2]
    return found | {
        "E2B_API_URL": engine.url,
        "E2B_SANDBOX_URL": engine.url,
        "E2B_API_KEY": engine.key,
        "E2B_DOMAIN": f"localhost:{address.rpartition(':')[2]}",
        "NO_PROXY": "127.0.0.1,localhost,.localhost",
        "no_proxy": "127.0.0.1,localhost,.localhost",
    }


def install(integration: Integration, folder: Path) -> list[str]:
    """Make the environment unless it is there; the command that runs programs in it.

    Raises ``subprocess.CalledProcessError``.
    """
    done = folder / "installed"
    if integration.is_node:
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
            run(["npm", "install", "--silent", "--no-package-lock", *integration.packages], folder)
            done.touch()
        return ["node"]
    python = folder / "bin" / "python"
    if not done.exists():
        base = f"python{integration.python}" if needs_other(integration) else sys.executable
        folder.parent.mkdir(parents=True, exist_ok=True)
        run([base, "-m", "venv", "--clear", str(folder)], CHECKOUT)
        run([str(python), "-m", "pip", "install", "--quiet", *integration.packages], CHECKOUT)
        done.touch()
    return [str(python), "-P"]


def needs_other(integration: Integration) -> bool:
    wanted = tuple(int(part) for part in integration.python.split(".") if part)
    return sys.version_info[:2] < wanted


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, check=True)


def versions(integration: Integration, folder: Path) -> str:
    """The versions of the packages, and of the e2b packages that they brought along."""
    if integration.is_node:
        found = {
            name: json.loads((folder / "node_modules" / name / "package.json").read_text())[
                "version"
            ]
            for name in (*integration.packages, "e2b", "@e2b/code-interpreter")
            if (folder / "node_modules" / name).exists()
        }
    else:
        listed = subprocess.run(
            [str(folder / "bin" / "python"), "-m", "pip", "list", "--format=json"],
            capture_output=True,
            check=True,
        )
        wanted = {package.partition("[")[0] for package in integration.packages}
        wanted |= {"e2b", "e2b-code-interpreter"}
        found = {
            each["name"]: each["version"]
            for each in json.loads(listed.stdout)
            if each["name"].lower().replace("_", "-") in wanted
        }
    return ", ".join(f"{name} {version}" for name, version in found.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
