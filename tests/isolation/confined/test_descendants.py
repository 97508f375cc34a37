"""The processes below a keeper: which of them run, and how all of them are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.confined.descendants import _is_running

_GONE = str(2**22)
"""No thread has this id: it is above the largest that the kernel gives."""

_PAIRS = 40
_ENDER = f"""
import os, signal
from sbx_jupyter.isolation.confined import descendants

walk, leave = descendants._walk, os._exit
walks = []

def counted(pid):
    walks.append(pid)
    return walk(pid)

def report(status):
    print(len(walks), flush=True)
    leave(status)

descendants.prepare_keeper()
for _ in range({_PAIRS}):
    if os.fork() == 0:
        os.fork()
        while True:
            signal.pause()
descendants._walk, os._exit = counted, report
descendants.end_all()
"""


def test_a_thread_that_ended_does_not_hide_a_running_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        monkeypatch.setattr(descendants.os, "listdir", lambda _: [_GONE, str(child.pid)])
        try:
            assert _is_running(child.pid)
        finally:
            child.kill()


def test_a_process_that_is_stopped_or_gone_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert not _is_running(child.pid)
        finally:
            child.kill()

    assert not _is_running(child.pid)


def test_ending_all_does_not_walk_the_processes_again_for_each_of_them() -> None:
    ended = subprocess.run([sys.executable, "-c", _ENDER], capture_output=True, check=True)

    assert int(ended.stdout) < _PAIRS
