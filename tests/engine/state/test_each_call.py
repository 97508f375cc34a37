"""Each call that changes a file fails once: what was acknowledged is there, and nothing is left.

``SBX_EACH_CALL=1`` tries all calls; without it, some of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.state.each_call import OPERATIONS
from tests.engine_process import CHECKOUT
from tests.failing_calls import FailingCalls, Failure, build_library

pytestmark = pytest.mark.long

EVERY = int(os.environ.get("SBX_EACH_CALL", "23"))


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> FailingCalls:
    folder = tmp_path_factory.mktemp("calls")
    return FailingCalls(build_library(folder), folder / "control")


@pytest.mark.timeout(1800 if EVERY < 10 else 120)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_call_that_fails_loses_nothing_and_leaves_nothing(calls: FailingCalls, operation: str):
    command = [sys.executable, "-P", "-m", "tests.engine.state.each_call", operation]
    done = subprocess.run(
        [*command, "--every", str(EVERY)],
        env=os.environ | calls.environment | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    *problems, summary = map(json.loads, done.stdout.splitlines())
    assert problems == []
    assert summary["rounds"] >= summary["calls"] // EVERY


def test_a_failing_call_is_counted_named_and_fails(calls: FailingCalls, tmp_path: Path):
    """The injection itself: otherwise nothing above could fail."""
    script = f"""
for name in ("one", "two", "three"):
    try:
        open("{tmp_path}/" + name, "w").close()
    except OSError as error:
        print(name, error.errno)
"""
    for failure, number, expected in (
        (Failure.BAD_DISK, 2, "two 5\n"),
        (Failure.NO_SPACE, 2, "two 28\nthree 28\n"),
        (Failure.BAD_DISK, 0, ""),
    ):
        for path in tmp_path.iterdir():
            path.unlink()
        calls.arm(tmp_path, failure, number)
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | calls.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        calls.disarm()
        assert done.stdout == expected
        assert calls.count == 3
        assert calls.hit == ("open64 two" if number else "")
