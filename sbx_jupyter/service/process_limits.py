"""What the engine's process asks of the system before it serves."""

from __future__ import annotations

import contextlib
import ctypes
import resource
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 16 * 1024 * 1024


def prepare() -> None:
    """Allow as many open files as may be, and keep buffers of streams off mmap.

    With glibc's default every chunk above 128 KiB is mapped and unmapped again, which costs half of
    the throughput of a stream.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_M_TRIM_THRESHOLD, 4 * _LARGE)
