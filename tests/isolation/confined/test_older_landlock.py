"""Test what the keeper does where Landlock is of an older version than 6."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.kernel import landlock
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TARGET = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
print("ready", flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGHUP})
print(sorted(number.value for number in signal.sigpending()), flush=True)
"""
"""Notes each signal that it gets, until it is told to say them."""
REFUSED = {"kill", "look", "tkill", "tgkill", "queue", "queue to thread", "descriptor", "own",
           "own group", "own by record", "priority"}  # fmt: skip


@pytest.fixture
def target() -> Iterator[subprocess.Popen[str]]:
    """A process of the machine with a group of its own; it must get no signal but ours."""
    process = subprocess.Popen(
        [sys.executable, "-c", TARGET], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_no_signal_leaves_the_sandbox_and_no_file_outside_is_shortened(
    target: subprocess.Popen[str], tmp_path: Path
) -> None:
    own, outside = tmp_path / "own", tmp_path / "outside"
    own.mkdir()
    outside.write_text("whole")
    script = [sys.executable, "-B", HERE / "signalled.py", "keeper", str(target.pid), outside]

    done = subprocess.run(
        [sys.executable, "-B", HERE.parent / "loopback" / "brokered.py", own, "1", *script],
        cwd=own, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    for whom in ("machine", "keeper"):
        tried = seen[whom]
        assert {name for name, said in tried.items() if said == "EPERM"} == REFUSED
        assert (tried["own socket"], tried["group of socket"]) == ("ENOTTY", "ENOTTY")
        assert tried["group"] == "ESRCH"  # in the sandbox there is no such group
    assert seen["use"] == {
        "itself": 5, "child": "okok", "ended": -15, "descriptor": "ok", "by descriptor": -15,
        "forged": "EPERM", "queue": "ok", "queued": -15, "group": "ok", "grouped": -15,
        "gone": "ESRCH", "no number": "ESRCH", "own": "ok", "nobody": "ok", "flags": "ok",
        "timeout": 124, "abort": -6, "shell": "143",
    }  # fmt: skip
    assert seen["truncate"] == {
        "outside": "EACCES", "opened": "EACCES", "size outside": 5, "own": "ok", "own size": 4,
        "link": "EACCES", "written": "ok",
    }  # fmt: skip
    target.send_signal(signal.SIGTERM)
    assert until(lambda: target.stdout and target.stdout.readline()) == "[]\n"


def test_programs_start_where_the_kernel_knows_no_flags_of_listeners(tmp_path: Path) -> None:
    """As before Linux 6.6, which refuses a request that it does not know in the same way."""
    code = (
        "import sys\n"
        "from sbx_jupyter.isolation.kernel import notifications\n"
        "from tests.isolation.loopback import brokered\n"
        "notifications._SET_FLAGS = 0x400821FF\n"
        "sys.exit(brokered.main(sys.argv[1], 2, ['/bin/echo', 'started']))\n"
    )

    done = subprocess.run(
        [sys.executable, "-B", "-c", code, tmp_path],
        cwd=HERE.parents[2], capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


@pytest.mark.parametrize("version", range(1, landlock.SCOPED_ABI + 1))
def test_each_version_is_asked_for_the_rights_that_it_knows(version: int) -> None:
    if landlock.abi() < version:
        pytest.skip("needs a newer Landlock")
    rules = shared_ids.rules(abi=version)

    code = "import os, sys\n" + (
        "from sbx_jupyter.isolation.kernel import landlock, syscalls\n"
        "syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)\n"
        f"landlock.restrict(writable=['/dev/null'], readable=['/usr'], version={version})\n"
        "os.listdir('/usr'); open('/dev/null', 'w')\n"
        "try: os.listdir('/etc')\n"
        "except PermissionError: print('confined')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "confined\n"
    assert ("kill" in rules) == (version < landlock.SCOPED_ABI)
    assert ("truncate" in rules) == (version < landlock.TRUNCATE_ABI)
