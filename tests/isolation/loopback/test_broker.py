"""Test the loopback interface that a keeper gives: its meaning, its limits, and attacks on it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.isolation.kernel import landlock
from sbx_jupyter.isolation.loopback.broker import MOST_HELD, MOST_QUEUED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(landlock.abi() < landlock.NEEDED_ABI, reason="needs Landlock")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket of the machine, which must never hear anything."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "host.sock"))
        listener.listen()
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def ask(tmp_path: Path, outside: socket.socket) -> Callable[..., dict[str, Any]]:
    """Run a function of ``inside.py`` in a directory beside that socket."""
    (tmp_path / "own").mkdir()

    def run(name: str, *arguments: str) -> dict[str, Any]:
        program = [sys.executable, "-B", str(HERE / "inside.py"), name, outside.getsockname()]
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "brokered.py"), str(tmp_path / "own"), "6", *program,
             *arguments],
            cwd=tmp_path / "own", capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_sockets_behave_as_on_a_loopback_interface(ask: Callable[..., dict[str, Any]]) -> None:
    assert ask("meaning") == {
        "names": True,
        "family": True,
        "taken": "EADDRINUSE",
        "half open": ["", 4, "late"],
        "nobody": "EAGAIN",
        "readable": [[], True, []],
        "at once": 0,
        "writable": True,
        "closed": "ECONNREFUSED",
        "two families": ["ab", "ab"],
        "elsewhere": "ENETUNREACH",
        "metadata": "ENETUNREACH",
        "foreign": "EADDRNOTAVAIL",
        "kinds": ["EPROTONOSUPPORT"] * 2 + ["ENOTSUP"] * 2 + ["EPROTONOSUPPORT"] * 2,
        "copies": ["child", "parent"],
        "own path": ["ab", "ab"],
        "abstract": "ab",
        "again": "EADDRINUSE",
        "outside": ["EACCES", "EACCES", "EACCES", "ECONNREFUSED"],
        "bound outside": "EACCES",
    }


def test_accepts_wait_for_connections_times_and_signals(ask: Callable[..., Any]) -> None:
    assert ask("blocked") == {
        "threads": True,
        "signal": "raised",
        "restarted": "127.0.0.1",
        "time": "EAGAIN",
        "stopped": True,
        "ended": -15,
    }


def test_signals_break_no_program(ask: Callable[..., dict[str, Any]]) -> None:
    assert ask("interrupted") == {"ends": {"ab": 300}, "signals": True}


@pytest.mark.parametrize("seed", ["1", "2"])
def test_senseless_arguments_end_nothing(ask: Callable[..., dict[str, Any]], seed: str) -> None:
    assert ask("forged", seed) == {"after": "ab"}


def test_the_keeper_holds_a_limited_number_of_sockets(ask: Callable[..., dict[str, Any]]) -> None:
    seen = ask("floods", "keeper")

    assert seen["sockets"] == ["ENFILE", MOST_HELD - 1]  # and the one that listens
    assert seen["connections"] == ["ECONNREFUSED", MOST_QUEUED]
    assert (seen["after"], seen["left"]) == ("ab", 0)


def test_programs_killed_in_a_call_leave_nothing(ask: Callable[..., dict[str, Any]]) -> None:
    assert ask("killed", "keeper") == {"after": "ab", "left": 0}
