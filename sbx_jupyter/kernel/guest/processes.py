"""Processes: how they end, what they are sent, and what they say."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def exit_code(status: int) -> int:
    """The exit status as a shell tells it, of one that ``waitpid`` gives."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def say(**facts: Any) -> None:
    """Write a line of JSON for the one who started the guest."""
    os.write(1, json.dumps(facts).encode() + b"\n")


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process and all that it started, if they are still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_with(work: Any, *arguments: Any) -> NoReturn:
    """Do work in this process and end it with the status."""
    status = 1
    try:
        status = work(*arguments)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
