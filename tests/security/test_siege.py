"""Attacks from inside real sandboxes, in every tier that this machine gives.

One engine is besieged per tier, in a process of that tier's user; each attack is one test here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.isolation.kernel import landlock
from tests.security import exhaustion, flooding, interface, keeper_attacks, ports
from tests.security.attacks import SCRIPTS, TIERS

CHECKOUT = Path(__file__).parents[2]
SIEGE = Path(__file__).with_name("siege.py")
PYTHON = "/usr/bin/python3"
UID = 1477
PHASES = ("scripts", "interface", "exhaustion")

_told: dict[str, dict[str, Any] | str] = {}


def missing(tier: str) -> str | None:
    """Why this machine cannot give a tier."""
    if os.getuid() != 0 or shutil.which("setpriv") is None or not Path(PYTHON).exists():
        return "needs root, setpriv and a Python for every user, to become the user of each tier"
    if tier == "namespaces-subordinate" and shutil.which("newuidmap") is None:
        return "needs newuidmap: apt-get install uidmap"
    if tier == "landlock" and landlock.abi() < landlock.NEEDED_ABI:
        return "needs Landlock"
    return None


def lay_siege(tier: str) -> dict[str, Any] | str:
    home = Path(tempfile.mkdtemp(prefix="siege-", dir="/tmp"))
    home.chmod(0o755)
    setup, become = "true", ""
    if tier != "namespaces-root":
        os.chown(home, UID, UID)
        become = f"setpriv --reuid {UID} --regid {UID} --clear-groups "
    if tier == "namespaces-subordinate":
        setup = give_range(home)
    options = "--no-namespaces" if tier == "landlock" else ""
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{CHECKOUT}:{sysconfig.get_path('purelib')}",
        **{name: os.environ[name] for name in ("SIEGE_TIMES", "SIEGE_ONLY") if name in os.environ},
    }
    script = f"{setup}\nexec {become}{PYTHON} -B {SIEGE} {home} {tier} {options}"
    try:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-ec", script],
            env=environment, capture_output=True, text=True, timeout=1210, cwd="/", check=False,
        )  # fmt: skip
        if os.environ.get("SIEGE_TIMES"):
            print(done.stderr)
        if done.returncode != 0:
            return done.stderr[-3000:] + _tail(home / "engine.log")
        return json.loads(done.stdout)
    finally:
        shutil.rmtree(home)


def give_range(home: Path) -> str:
    """Let the user have subordinate ids, in a mount namespace of its own."""
    accounts, ranges = home / "passwd", home / "subuid"
    accounts.write_text(
        Path("/etc/passwd").read_text() + f"sbxsiege:x:{UID}:{UID}::/nonexistent:/bin/sh\n"
    )
    ranges.write_text("sbxsiege:200000:65536\n")
    setup = f"mount --bind {accounts} /etc/passwd"
    for name in ("subuid", "subgid"):
        Path("/etc", name).touch()
        setup += f"\nmount --bind {ranges} /etc/{name}"
    return setup


def _tail(log: Path) -> str:
    return log.read_text()[-3000:] if log.exists() else ""


@pytest.fixture
def told(tier: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the siege of a tier told; those of all chosen tiers are laid once, side by side."""
    if (why := missing(tier)) is not None:
        pytest.skip(why)
    if tier not in _told:
        names = {
            item.callspec.params.get("tier")
            for item in request.session.items
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        }
        chosen = [name for name in TIERS if name in names and missing(name) is None]
        with ThreadPoolExecutor(len(chosen)) as threads:
            _told.update(zip(chosen, threads.map(lay_siege, chosen), strict=True))
    found = _told[tier]
    assert isinstance(found, dict), f"the siege failed: {found}"
    return found


ALL = [
    pytest.param(tier, attack.name, getattr(attack, "refusal", ""), id=f"{tier}: {attack.name}")
    for tier in TIERS
    for attack in (
        *SCRIPTS,
        *keeper_attacks.ATTACKS,
        *interface.ATTACKS,
        *ports.ATTACKS,
        *exhaustion.ATTACKS,
        *flooding.ATTACKS,
    )
    if tier in attack.tiers
]


@pytest.mark.timeout(1240)
@pytest.mark.parametrize("tier", TIERS)
def test_the_siege_is_laid_to_the_tier_that_it_names(tier: str, told: dict[str, Any]) -> None:
    isolation = told["isolation"]
    assert isolation["tier"] == tier.partition("-")[0]
    users = {
        "namespaces-root": "root-mapped",
        "namespaces-subordinate": "subordinate",
    }.get(tier, "virtual")
    assert isolation["users"] == users


@pytest.mark.timeout(1240)
@pytest.mark.parametrize(("tier", "name", "refusal"), ALL)
def test_an_attack_fails(tier: str, name: str, refusal: str, told: dict[str, Any]) -> None:
    said = told["results"][name]
    assert not said.startswith("BREACH"), said
    assert re.search(refusal, said), f"it failed, but for another reason: {said}"


@pytest.mark.timeout(1240)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("tier", TIERS)
def test_everything_outside_stays_healthy(phase: str, tier: str, told: dict[str, Any]) -> None:
    assert told["results"][f"health after {phase}"] == "healthy"
