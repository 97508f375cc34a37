"""Makes a list of system calls in a new process, without copying this one.

The child of a fork has a copy of this process, and even making that takes longer than most programs
run: page tables, and then a fault for each page that either of them writes. A child that makes only
system calls needs no copy. It borrows this process's memory, runs a few instructions that walk the
list, and ends with an exec, which gives the memory back. ``vfork`` and ``posix_spawn`` do that too,
but cannot change ids and limits in between, and they wait however long the child takes: a program
of its user could stop it then, and this process with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import signal
import struct
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# A step is nine words: the call's number, six arguments, its result, and the step to go on with
# when it fails. When it succeeds, that is the next one.
_STEP: Final = struct.Struct("=9q")
_RESULT: Final = 56

_INSTRUCTIONS: Final = {
    "x86_64": bytes.fromhex(
        "4889fb"  # mov %rdi, %rbx         the first step
        "488b03"  # next: mov (%rbx), %rax
        "488b7b08"  # mov 8(%rbx), %rdi
        "488b7310"  # mov 16(%rbx), %rsi
        "488b5318"  # mov 24(%rbx), %rdx
        "4c8b5320"  # mov 32(%rbx), %r10
        "4c8b4328"  # mov 40(%rbx), %r8
        "4c8b4b30"  # mov 48(%rbx), %r9
        "0f05"  # syscall
        "48894338"  # mov %rax, 56(%rbx)
        "488d4b48"  # lea 72(%rbx), %rcx
        "4885c0"  # test %rax, %rax
        "480f484b40"  # cmovs 64(%rbx), %rcx
        "4889cb"  # mov %rcx, %rbx
        "ebce"  # jmp next
    ),
    "aarch64": struct.pack(
        "<12I",
        0xAA0003F3,  # mov x19, x0                  the first step
        0xF9400268,  # next: ldr x8, [x19]
        0xA9408660,  # ldp x0, x1, [x19, #8]
        0xA9418E62,  # ldp x2, x3, [x19, #24]
        0xA9429664,  # ldp x4, x5, [x19, #40]
        0xD4000001,  # svc #0
        0xF9001E60,  # str x0, [x19, #56]
        0x91012269,  # add x9, x19, #72
        0xF940226A,  # ldr x10, [x19, #64]
        0xF100001F,  # cmp x0, #0
        0x9A89B153,  # csel x19, x10, x9, lt
        0x17FFFFF6,  # b next
    ),
}

_NUMBERS: Final = {
    "dup3": (292, 24),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "ioctl": (16, 29),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "close_range": (436, 436),
    "prlimit64": (302, 261),
    "setgroups": (116, 159),
    "setresgid": (119, 149),
    "setresuid": (117, 147),
    "prctl": (157, 167),
    "chdir": (80, 49),
    "execve": (59, 221),
    "getpid": (39, 172),
    "exit_group": (231, 94),
    "futex": (202, 98),
}
_COLUMN: Final = 0 if platform.machine() == "x86_64" else 1

_CLONE_VM: Final = 0x100
_CLONE_CHILD_CLEARTID: Final = 0x200000
_SIG_SETMASK: Final = 2
_FUTEX_WAIT: Final = 0

_STACK_SIZE: Final = 16384
"""For the few words by which the C library starts the child; system calls use none of it."""
_DATA_START: Final = 16384
_AREA_SIZE: Final = 512 * 1024
_LONGEST_WAIT: Final = 0.5
_WAIT_AFTER_KILL: Final = 1.0

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.clone.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
]  # fmt: skip


class TooLongError(Exception):
    """The data that a list of calls points to does not fit into its memory."""


class CallList:
    """System calls and what they point to; begins anew with each ``clear``."""

    def __init__(self) -> None:
        """Raises ``OSError`` where the machine does not let a program have instructions of its own,
        or is one that this module has no instructions for."""
        self.is_usable = True
        """Whether no child has the memory."""
        self._code = _executable(_INSTRUCTIONS.get(platform.machine(), b""))
        self._area = _private_memory(_AREA_SIZE + _STACK_SIZE)
        self._start = _address(self._area)
        self._steps: list[tuple[int, tuple[int, ...]]] = []
        self._end = _DATA_START
        self._everything = self._allocate(b"\xff" * 8)
        self._previous = self._allocate(bytes(8))
        self._kept = self._end

    def clear(self) -> None:
        """Forget the calls and what they point to."""
        self._steps.clear()
        self._end = self._kept

    def add(self, name: str, *arguments: int) -> None:
        """Add a call; the child ends when it fails."""
        self._steps.append((_NUMBERS[name][_COLUMN], arguments))

    def store(self, content: bytes) -> int:
        """Keep bytes until the next ``clear``; gives their address. Raises ``TooLongError``."""
        return self._allocate(content)

    def store_strings(self, strings: Sequence[bytes]) -> int:
        """Keep strings as the vector that ``execve`` takes; raises ``TooLongError``."""
        addresses = [self.store(text + b"\0") for text in strings]
        return self.store(struct.pack(f"={len(addresses) + 1}Q", *addresses, 0))

    def run(self) -> int | None:
        """Make the calls in a child, with all signals blocked; its process id after its exec.

        None when a call failed, or when the child was stopped: then it is killed. The code that
        waits for all children reaps it. Raises ``OSError`` when there cannot be a child.
        """
        failed = self._write_steps()
        struct.pack_into("=i", self._area, 0, 1)
        self._mask_signals(self._everything, self._previous)
        try:
            pid = _libc.clone(
                _address(self._code), self._start + _AREA_SIZE + _STACK_SIZE - 64,
                _CLONE_VM | _CLONE_CHILD_CLEARTID | signal.SIGCHLD, self._start + 64,
                None, None, self._start,
            )  # fmt: skip
            error = ctypes.get_errno()
        finally:
            self._mask_signals(self._previous, 0)
        if pid < 0:
            raise OSError(error, os.strerror(error))
        if not self._wait(_LONGEST_WAIT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            # One that is not even killed is in the kernel, and keeps the memory that it has.
            self.is_usable = self._wait(_WAIT_AFTER_KILL)
            return None
        return None if struct.unpack_from("=q", self._area, failed + _RESULT)[0] else pid

    def _write_steps(self) -> int:
        """Write the steps into the memory; gives where the one is that follows a failure."""
        failed = 64 + _STEP.size * len(self._steps)
        if failed + 2 * _STEP.size > _DATA_START:
            raise TooLongError
        on_failure = self._start + failed
        ending = [(_NUMBERS["getpid"][_COLUMN], ()), (_NUMBERS["exit_group"][_COLUMN], (126,))]
        for index, (number, arguments) in enumerate([*self._steps, *ending]):
            words = (*arguments, *(0,) * (6 - len(arguments)))
            _STEP.pack_into(self._area, 64 + _STEP.size * index, number, *words, 0, on_failure)
        return failed

    def _wait(self, seconds: float) -> bool:
        """Wait until the child gives the memory back; False when it takes too long."""
        end = time.monotonic() + seconds
        while struct.unpack_from("=i", self._area, 0)[0]:
            left = end - time.monotonic()
            if left <= 0:
                return False
            timeout = struct.pack("=qq", int(left), int(left % 1 * 1e9))
            # A signal or a change ends the wait early; the loop looks again.
            _call("futex", self._start, _FUTEX_WAIT, 1, timeout)
        return True

    def _allocate(self, content: bytes) -> int:
        place = (self._end + 15) & ~15
        if place + len(content) > _AREA_SIZE:
            raise TooLongError
        self._area[place : place + len(content)] = content
        self._end = place + len(content)
        return self._start + place

    def _mask_signals(self, new: int, old: int) -> None:
        # Not by the signal module: its sets of enumeration members take longer than the clone.
        _call("rt_sigprocmask", _SIG_SETMASK, new, old, 8)


def _call(name: str, *values: int | bytes) -> int:
    made = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    return _libc.syscall(ctypes.c_long(_NUMBERS[name][_COLUMN]), *made)


def _private_memory(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _executable(instructions: bytes) -> mmap.mmap:
    """Memory that can be run and no longer be written. Raises ``OSError``."""
    if not instructions:
        raise OSError("no instructions for this machine")
    memory = _private_memory(mmap.PAGESIZE)
    memory.write(instructions)
    protection = ctypes.c_int(mmap.PROT_READ | mmap.PROT_EXEC)
    if _libc.mprotect(ctypes.c_void_p(_address(memory)), ctypes.c_size_t(len(memory)), protection):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return memory


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
