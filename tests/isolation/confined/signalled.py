"""Run by a test behind the filter of an older Landlock: sends signals in every way there is.

Arguments: the process of the keeper, and one of the machine that must get none. Prints one JSON
object.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = {
    "x86_64": {"tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297},
    "aarch64": {"tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240},
}[os.uname().machine]
SI_QUEUE, SI_TKILL, SI_USER = -1, -6, 0
F_SETOWN_EX, FIOSETOWN, SIOCSPGRP = 15, 0x8901, 0x8902

libc = ctypes.CDLL(None, use_errno=True)


def raw(name: str, *values: int | bytes | None) -> None:
    made = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *made) < 0:
        raise OSError(ctypes.get_errno(), name)


def outcome(call: Callable[[], object]) -> str:
    """``ok`` or the name of the error."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def info(code: int, number: int) -> bytes:
    return struct.pack("=iiiiii", number, 0, code, 0, os.getpid(), os.getuid()).ljust(128, b"\0")


def attack(target: int) -> dict[str, str]:
    """Signals to a process outside, each of which would show."""
    number = signal.SIGUSR1
    ours, theirs = socket.socketpair()
    pidfd = os.pidfd_open(target)
    owner = struct.pack("=ii", 1, target)
    return {
        "kill": outcome(lambda: os.kill(target, number)),
        "look": outcome(lambda: os.kill(target, 0)),
        "group": outcome(lambda: os.killpg(target, number)),
        "tkill": outcome(lambda: raw("tkill", target, number)),
        "tgkill": outcome(lambda: raw("tgkill", target, target, number)),
        "queue": outcome(lambda: raw("rt_sigqueueinfo", target, number, info(SI_QUEUE, number))),
        "queue to thread": outcome(
            lambda: raw("rt_tgsigqueueinfo", target, target, number, info(SI_QUEUE, number))
        ),
        "descriptor": outcome(lambda: signal.pidfd_send_signal(pidfd, number)),
        "own": outcome(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, target)),
        "own group": outcome(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, -target)),
        "own by record": outcome(lambda: fcntl.fcntl(ours, F_SETOWN_EX, owner)),
        "own socket": outcome(lambda: fcntl.ioctl(ours, FIOSETOWN, struct.pack("i", target))),
        "group of socket": outcome(lambda: fcntl.ioctl(ours, SIOCSPGRP, struct.pack("i", target))),
        "priority": outcome(lambda: os.setpriority(os.PRIO_PROCESS, target, 5)),
        "closed": outcome(theirs.close),
    }


def swapped(target: int) -> int:
    """How many of a thousand signals by a descriptor that a thread swaps meanwhile are refused."""
    child = subprocess.Popen(["sleep", "1000"])
    own, other = os.pidfd_open(child.pid), os.pidfd_open(target)
    used = os.dup(own)
    going = True

    def swap() -> None:
        while going:
            os.dup2(other, used)
            os.dup2(own, used)

    thread = threading.Thread(target=swap)
    thread.start()
    refused = 0
    for _ in range(300):
        refused += outcome(lambda: signal.pidfd_send_signal(used, signal.SIGURG)) == "EPERM"
    going = False
    thread.join()
    child.kill()
    child.wait()
    return refused


def use() -> dict[str, object]:
    """What programs do among themselves must go on working."""
    got: list[int] = []
    signal.signal(signal.SIGUSR2, lambda number, _frame: got.append(number))
    os.kill(os.getpid(), signal.SIGUSR2)
    signal.raise_signal(signal.SIGUSR2)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
    raw("tkill", threading.get_native_id(), signal.SIGUSR2)
    raw("rt_sigqueueinfo", os.getpid(), signal.SIGUSR2, info(SI_QUEUE, signal.SIGUSR2))
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(["sleep", "1000"])
    by_descriptor = subprocess.Popen(["sleep", "1000"])
    pidfd = os.pidfd_open(by_descriptor.pid)
    queued = subprocess.Popen(["sleep", "1000"])
    grouped = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
    seen: dict[str, object] = {
        "itself": len(got),
        "child": outcome(lambda: os.kill(child.pid, 0)) + outcome(child.terminate),
        "ended": child.wait(),
        "descriptor": outcome(lambda: signal.pidfd_send_signal(pidfd, signal.SIGTERM)),
        "by descriptor": by_descriptor.wait(),
        "forged": outcome(
            lambda: raw("rt_sigqueueinfo", queued.pid, signal.SIGTERM, info(SI_USER, 15))
        ),
        "queue": outcome(
            lambda: raw("rt_sigqueueinfo", queued.pid, signal.SIGTERM, info(SI_QUEUE, 15))
        ),
        "queued": queued.wait(),
        "group": outcome(lambda: os.killpg(grouped.pid, signal.SIGTERM)),
        "grouped": grouped.wait(),
        "gone": outcome(lambda: os.kill(child.pid, 0)),
        "no number": outcome(lambda: os.kill(queued.pid or 1, 99)),
        "own": outcome(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, os.getpid())),
        "nobody": outcome(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, 0)),
        "flags": outcome(lambda: fcntl.fcntl(theirs, fcntl.F_GETFL)),
        "timeout": subprocess.run(["timeout", "0.1", "sleep", "1000"], check=False).returncode,
        "abort": subprocess.run(
            [sys.executable, "-c", "import os; os.abort()"], check=False
        ).returncode,
        "shell": subprocess.run(
            ["bash", "-c", "set -m; sleep 1000 & kill %1; wait %1; echo $?"],
            capture_output=True, text=True, check=False,
        ).stdout.strip(),
    }  # fmt: skip
    return seen


def truncate(outside: Path, own: Path) -> dict[str, object]:
    """Shorten files: none outside, by their path or by opening them to read."""
    own.write_text("0123456789")
    flags = os.O_RDONLY | os.O_TRUNC
    return {
        "outside": outcome(lambda: os.truncate(outside, 0)),
        "opened": outcome(lambda: os.open(outside, flags)),
        "size outside": outside.stat().st_size,
        "own": outcome(lambda: os.truncate(own, 4)),
        "own size": own.stat().st_size,
        "link": (Path("link").symlink_to(outside), outcome(lambda: os.truncate("link", 0)))[1],
        "written": outcome(lambda: own.write_text("again")),
    }


def main() -> None:
    keeper, target, outside = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    started = time.perf_counter()
    for _ in range(100):
        os.kill(os.getpid(), 0)
    cost = (time.perf_counter() - started) / 100
    found: dict[str, object] = {
        "machine": attack(target),
        "keeper": attack(keeper),
        "swapped": swapped(target),
        "use": use(),
        "truncate": truncate(outside, Path("own")),
        "microseconds": round(cost * 1e6),
    }
    print(json.dumps(found))
    sys.stdout.flush()
    if outcome(lambda: os.kill(-1, signal.SIGCONT)) != "ok":
        sys.exit("kill(-1)")


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    main()
