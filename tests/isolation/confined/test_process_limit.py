"""Programs that fork as fast as they are killed: the limit that a keeper holds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.confined import process_limit
from sbx_jupyter.isolation.confined.process_limit import ProcessLimit

_MANY = """
import os, signal
for _ in range(20):
    if os.fork() == 0: signal.pause()
print("made", flush=True)
signal.pause()
"""


def test_a_group_is_killed_at_once_also_those_that_were_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MANY], stdout=subprocess.PIPE, start_new_session=True
    ) as bomb:
        try:
            assert bomb.stdout is not None
            assert bomb.stdout.readline() == b"made\n"
            seen = procfs.read_stat(bomb.pid)
            assert seen is not None
            # The time of the keeper was enough to look at one of them, which had 20 threads.
            monkeypatch.setattr(process_limit, "_members", lambda: [seen._replace(threads=20)])

            assert ProcessLimit(10).cut()

            # Its end comes when nothing holds it open: all of them are gone.
            assert bomb.stdout.read() == b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bomb.pid, signal.SIGKILL)


def test_what_forks_faster_than_it_is_killed_ends_the_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    limit = ProcessLimit(10)
    monkeypatch.setattr(process_limit.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(process_limit.descendants, "count_tasks", lambda _: 700)
    monkeypatch.setattr(limit, "_kill_what_is_too_many", lambda: False)
    assert limit.cut()
    now[0] += 4
    assert limit.cut()
    now[0] += 2
    assert not limit.cut()

    monkeypatch.setattr(process_limit.descendants, "count_tasks", lambda _: 5)
    now[0] += 2
    assert limit.cut()
