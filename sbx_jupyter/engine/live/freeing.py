"""Closes files in threads, where the event loop would wait for the disk.

The last close of a file without a name frees its blocks. A file system that discards them at once,
such as ext4 without a journal, makes that wait behind everything that loads the disk.
"""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sbx-free")


def close(fd: int) -> None:
    """Close a descriptor; in a thread, if it may be the last of a file without a name."""
    try:
        status = os.fstat(fd)
        frees = stat.S_ISREG(status.st_mode) and not status.st_nlink and status.st_blocks
    except OSError:
        frees = False
    if frees:
        _threads.submit(os.close, fd)
    else:
        os.close(fd)
