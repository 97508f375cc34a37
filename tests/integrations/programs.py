"""The programs in ``clients``, and the environments that their packages are installed in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
CLIENTS: Final = Path(__file__).parent / "clients"
REPORTING: Final = Path(__file__).parent / "reporting"
ENVIRONMENTS: Final = CHECKOUT / ".integrations"
INSTALL_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True)
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
    def title(self) -> str:
        """The names of its packages without their extras."""
        return ", ".join(package.partition("[")[0] for package in self.packages)

    @property
    def is_node(self) -> bool:
        return self.script.endswith(".mjs")

    @property
    def folder(self) -> Path:
        """Its environment."""
        return ENVIRONMENTS / self.name


INTEGRATIONS: Final = (
    Integration("inspect_ai.py", ("inspect-ai", "inspect-sandboxes"), python="3.12"),
    Integration("harbor.py", ("harbor[e2b]",), python="3.12"),
    Integration("langchain.py", ("langchain-e2b",)),
    Integration("smolagents.py", ("smolagents[e2b]",)),
    Integration("openai_agents.py", ("openai-agents[e2b]",)),
    Integration("code_sandboxes.py", ("code-sandboxes[e2b]",)),
    Integration("computesdk.mjs", ("@computesdk/e2b",)),
)


def install(integration: Integration) -> list[str]:
    """Make the environment unless it is there; the command that runs the program in it.

    Raises ``subprocess.CalledProcessError`` and ``subprocess.TimeoutExpired``.
    """
    folder = integration.folder
    done = folder / "installed"
    if integration.is_node:
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
            _run(["npm", "install", "--silent", "--no-package-lock", *integration.packages], folder)
            done.touch()
        script = folder / integration.script  # modules are looked for beside the file
        script.write_text((CLIENTS / integration.script).read_text())
        return ["node", str(script)]
    python = folder / "bin" / "python"
    if not done.exists():
        base = f"python{integration.python}" if _needs_other(integration) else sys.executable
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([base, "-m", "venv", "--clear", str(folder)], CHECKOUT)
        _run([str(python), "-m", "pip", "install", "--quiet", *integration.packages], CHECKOUT)
        done.touch()
    return [str(python), "-P", str(CLIENTS / integration.script)]


def environment(url: str, key: str, checks: Path) -> dict[str, str]:
    """What leads any client of the interface to an engine, and a program's checks to a file."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    address = url.partition("//")[2]
    return found | {
        "E2B_API_URL": url,
        "E2B_SANDBOX_URL": url,
        "E2B_API_KEY": key,
        "E2B_DOMAIN": f"localhost:{address.rpartition(':')[2]}",
        "NO_PROXY": "127.0.0.1,localhost,.localhost",
        "no_proxy": "127.0.0.1,localhost,.localhost",
        "PYTHONPATH": str(REPORTING),
        "SBX_CHECKS": str(checks),
    }


def versions(integration: Integration) -> dict[str, str]:
    """The versions of the packages, and of the e2b packages that they brought along."""
    folder = integration.folder
    wanted = [*integration.title.split(", "), "e2b"]
    if integration.is_node:
        wanted.append("@e2b/code-interpreter")
        manifests = {name: folder / "node_modules" / name / "package.json" for name in wanted}
        return {
            name: json.loads(manifest.read_text())["version"]
            for name, manifest in manifests.items()
            if manifest.exists()
        }
    wanted.append("e2b-code-interpreter")
    listed = subprocess.run(
        [str(folder / "bin" / "python"), "-m", "pip", "list", "--format=json"],
        capture_output=True,
        check=True,
    )
    found = {
        each["name"].lower().replace("_", "-"): each["version"]
        for each in json.loads(listed.stdout)
    }
    return {name: found[name] for name in wanted if name in found}


def _needs_other(integration: Integration) -> bool:
    wanted = tuple(int(part) for part in integration.python.split(".") if part)
    return sys.version_info[:2] < wanted


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, check=True)
