"""Signals of programs where Landlock does not keep them inside: before version 6, Linux 6.12.

A filter hands every call that sends a signal to the keeper. Signals of a process to itself are left
to the kernel: the process waits, so its number cannot become another's meanwhile. All others are
sent by the keeper, to processes below it only; it holds each by a descriptor while it checks that.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.confined import descendants, shared_ids
from sbx_jupyter.isolation.confined.contained_paths import refusal
from sbx_jupyter.isolation.kernel import call_numbers, syscalls
from sbx_jupyter.isolation.kernel.notifications import read_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sbx_jupyter.isolation.kernel.notifications import Notification

_PID: Final = re.compile(r"^Pid:\t([0-9]+)$", re.MULTILINE)
_LARGEST: Final = 64
_INFO_SIZE: Final = 128
_SI_TKILL: Final = -6
_DEEPEST: Final = 4096


class Signals:
    """Sends the signals of the programs of one sandbox, whose keeper this process is."""

    def __init__(self) -> None:
        perform: dict[str, Callable[[Notification], bool]] = {
            "kill": lambda asked: self._kill(asked, *_numbers(asked, 2)),
            "tkill": lambda asked: self._tkill(asked, *_numbers(asked, 2)),
            "tgkill": self._tgkill,
            "rt_sigqueueinfo": self._queue,
            "rt_tgsigqueueinfo": self._queue_to_thread,
            "pidfd_send_signal": self._send_by_descriptor,
            "fcntl": self._own,
        }
        numbers = call_numbers.NUMBERS[call_numbers.HERE]
        self._perform = {
            numbers[name]: perform[name] for name in shared_ids.SENDING if name in numbers
        }

    def answers(self, number: int) -> bool:
        """Whether this is a call that sends signals."""
        return number in self._perform

    def perform(self, asked: Notification) -> None:
        """Answer a call."""
        try:
            is_own = self._perform[asked.call](asked)
        except OSError as error:
            asked.answer(error.errno or errno.EPERM)
            return
        if is_own:
            asked.let_through()
        else:
            asked.answer(0)

    # Each says whether the kernel can do it: the caller means itself.

    def _kill(self, asked: Notification, target: int, number: int) -> bool:
        own = _caller(asked)
        if target in (0, own):  # no process outside is in a group of ours
            return True
        if target == -1:
            return _send_to_all(number, but=own, group=None)
        if target < -1:
            return _send_to_all(number, but=0, group=-target)
        with _held(_leader_of(target)) as pidfd:
            return _send(pidfd, number)

    def _tkill(self, asked: Notification, thread: int, number: int) -> bool:
        if thread == asked.pid:
            return True
        own = _leader_of(thread)
        if own == _caller(asked):
            syscalls.call("tgkill", own, thread, number)  # the caller waits, so its number stays
            return False
        with _held(own) as pidfd:
            return _send(pidfd, number)

    def _tgkill(self, asked: Notification) -> bool:
        process, thread, number = _numbers(asked, 3)
        if process == _caller(asked):
            return True
        if process <= 0 or thread <= 0:
            raise refusal(errno.EINVAL)
        if _leader_of(thread) != process:
            raise refusal(errno.ESRCH)
        with _held(process) as pidfd:  # which of its threads gets it is for the kernel to choose
            return _send(pidfd, number)

    def _queue(self, asked: Notification) -> bool:
        process, number = _numbers(asked, 2)
        return self._queue_to(asked, process, number, asked.arguments[2])

    def _queue_to_thread(self, asked: Notification) -> bool:
        process, _, number = _numbers(asked, 3)
        return self._queue_to(asked, process, number, asked.arguments[3])

    def _queue_to(self, asked: Notification, process: int, number: int, address: int) -> bool:
        if process == _caller(asked):
            return True
        info = _read_info(asked, address)
        with _held(process) as pidfd:
            return _send(pidfd, number, info)

    def _send_by_descriptor(self, asked: Notification) -> bool:
        descriptor, number = _numbers(asked, 2)
        if asked.arguments[3]:
            raise refusal(errno.EINVAL)
        info = _read_info(asked, asked.arguments[2]) if asked.arguments[2] else None
        try:
            told = Path(f"/proc/{asked.pid}/fdinfo/{descriptor}").read_text()
        except FileNotFoundError:
            raise refusal(errno.EBADF) from None
        found = _PID.search(told)
        if found is None:
            raise refusal(errno.EBADF if "Pid:" not in told else errno.ESRCH)
        with _held(int(found[1])) as pidfd:
            return _send(pidfd, number, info)

    def _own(self, asked: Notification) -> bool:
        """Check the receiver of SIGIO: only nobody or the caller is allowed."""
        target = ctypes.c_int(asked.arguments[2]).value
        if target not in (0, _caller(asked)):
            raise refusal(errno.EPERM)
        return True


def is_below(pid: int) -> bool:
    """Whether a process that is held is below this one, so within the sandbox.

    Each parent is looked at between two looks at its child: had its number been given away
    meanwhile, the child would have another parent by then.
    """
    own = os.getpid()
    for _ in range(_DEEPEST):
        stat = procfs.read_stat(pid)
        if stat is None or stat.parent <= 1:
            return False
        above = procfs.read_stat(stat.parent)
        again = procfs.read_stat(pid)
        if above is None or again is None or again.parent != stat.parent:
            continue  # it has another parent now
        if stat.parent == own:
            return True
        pid = stat.parent
    return False


def _numbers(asked: Notification, count: int) -> list[int]:
    return [ctypes.c_int(value).value for value in asked.arguments[:count]]


def _leader_of(thread: int, code: int = errno.ESRCH) -> int:
    """The process of a thread; raises ``OSError`` with ``code`` when it is gone."""
    if thread <= 0:
        raise refusal(errno.EINVAL)
    found = procfs.leader_of(thread)
    if found is None:
        raise refusal(code)
    return found


def _caller(asked: Notification) -> int:
    return _leader_of(asked.pid, errno.EINTR)


@contextlib.contextmanager
def _held(pid: int) -> Generator[int]:
    """A descriptor of a process of the sandbox. Raises ``OSError``: EPERM for any other."""
    pidfd = os.pidfd_open(pid)
    try:
        if not is_below(pid):
            raise refusal(errno.EPERM)
        if procfs.has_ended(pidfd):  # so that its number may be another's by now
            raise refusal(errno.ESRCH)
        yield pidfd
    finally:
        os.close(pidfd)


def _send(pidfd: int, number: int, info: bytes | None = None) -> bool:
    if not 0 <= number <= _LARGEST:
        raise refusal(errno.EINVAL)
    syscalls.call("pidfd_send_signal", pidfd, number, info, 0)
    return False


def _send_to_all(number: int, *, but: int, group: int | None) -> bool:
    """Signal every process of the sandbox, or those of a group. Raises ``OSError``: ESRCH."""
    found = False
    for pid in descendants.descendants(os.getpid()):
        stat = procfs.read_stat(pid)
        if pid == but or stat is None or group not in (None, stat.group):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError), _held(pid) as pidfd:
            _send(pidfd, number)
            found = True
    if not found:
        raise refusal(errno.ESRCH)
    return False


def _read_info(asked: Notification, address: int) -> bytes:
    """Read a signal's siginfo. Raises ``OSError`` for a code that only the kernel may give."""
    info = read_memory(asked.pid, address, _INFO_SIZE)
    if len(info) < _INFO_SIZE:
        raise refusal(errno.EFAULT)
    (code,) = struct.unpack_from("=i", info, 8)
    if code >= 0 or code == _SI_TKILL:
        raise refusal(errno.EPERM)
    return info
