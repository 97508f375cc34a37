"""What lies in layers and volumes does not steer the set-up of the next sandbox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.security.test_siege import PYTHON, UID, give_range, missing

SCRIPT = Path(__file__).with_name("hostile_content.py")
TIERS = ("namespaces-root", "namespaces-subordinate", "namespaces-one-id")


@pytest.fixture(scope="module", params=TIERS)
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What came of each variant, by name."""
    tier = request.param
    if (why := missing(tier)) is not None:
        pytest.skip(why)
    home = Path(tempfile.mkdtemp(prefix="sbx-content-"))
    home.chmod(0o755)
    setup = become = ""
    if tier != "namespaces-root":
        os.chown(home, UID, UID)
        become = f"setpriv --reuid {UID} --regid {UID} --clear-groups "
    if tier == "namespaces-subordinate":
        setup = give_range(home)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{setup}\nexec {become}{PYTHON} -B "$0" "$1"',
         str(SCRIPT), str(home)],
        capture_output=True, text=True, timeout=130, cwd="/", check=False,
    )  # fmt: skip
    shutil.rmtree(home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    kinds = {"root-mapped": TIERS[0], "subordinate": TIERS[1], "virtual": TIERS[2]}
    assert (told["tier"], kinds[told["users"]]) == ("namespaces", tier)
    return told["seen"]


def test_nothing_is_made_outside(seen: dict[str, Any]) -> None:
    assert {name: one["reached"] for name, one in seen.items() if one["reached"]} == {}


def test_a_mount_through_a_link_is_refused_and_leaves_nothing(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        if name.startswith(("through", "at")):
            assert one["outcome"].startswith("invalid_argument: invalid mounts:\n- volume"), name
            assert "goes through a symbolic link" in one["outcome"], name
        assert one["left"] == [], name


def test_a_template_whose_places_to_mount_at_are_links_is_refused(seen: dict[str, Any]) -> None:
    for name in ("dev", "proc", "sys"):
        outcome = seen[f"the kernel's views at links: {name}"]["outcome"]
        said = f"'{name}' of the template goes through a symbolic link"
        assert outcome == f"invalid_argument: {said}"


def test_a_sandbox_starts_wherever_its_etc_leads(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        if name.startswith("etc is"):
            assert one["outcome"] == "made", name
