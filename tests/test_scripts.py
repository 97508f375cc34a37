"""The scripts around the tests hide nothing that is missing where CI is set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def run(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a machine that has nothing but what a shell needs."""
    for program in ("dirname", "id", "sh"):
        found = shutil.which(program)
        assert found is not None
        (folder / program).symlink_to(found)
    environment |= {"PATH": str(folder), "HOME": str(folder)}
    command = [str(folder / "sh"), str(TESTS / script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("second_python.sh", "No Python 3.13 or 3.12 was found"),
        ("system_packages.sh", "Missing system packages; install them with: sudo apt-get"),
    ],
)
def test_what_is_missing_fails_where_ci_is_set_alone(
    tmp_path: Path, script: str, message: str
) -> None:
    (elsewhere := tmp_path / "ci").mkdir()

    here = run(tmp_path, script)
    in_ci = run(elsewhere, script, CI="true")

    assert (here.returncode, in_ci.returncode) == (0, 1)
    assert message in here.stderr
    assert message in in_ci.stderr


def test_no_python_at_all_fails_who_asked_for_each(tmp_path: Path) -> None:
    ran = run(tmp_path, "each_python.sh")

    assert ran.returncode == 1
    assert "nothing was tested" in ran.stderr
