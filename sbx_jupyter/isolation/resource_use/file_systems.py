"""Tells files in memory from files on a disk, by the file system that the kernel names."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_IN_MEMORY: Final = (0x01021994, 0x958458F6, 0x858458F6)
"""The types of tmpfs (also memfd, System V and shared mappings), hugetlbfs and ramfs."""

_MASK: Final = 0xFFFFFFFF
_STATFS_SIZE: Final = 256
_libc = ctypes.CDLL(None, use_errno=True)


class FileSystems:
    """Remembers for each device whether it is in memory."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def is_in_memory(self, device: int, path: str) -> bool:
        """Whether the device ``st_dev`` of the file at ``path`` is in memory; false if unknown."""
        known = self._known.get(device)
        if known is None:
            known = self._known[device] = is_in_memory(path)
        return known


def is_in_memory(path: str) -> bool:
    """Whether a file is in memory; follows the last link of ``/proc``. False if it is gone."""
    record = (ctypes.c_long * (_STATFS_SIZE // ctypes.sizeof(ctypes.c_long)))()
    if _libc.statfs(os.fsencode(path), ctypes.byref(record)) != 0:
        return False
    return record[0] & _MASK in _IN_MEMORY
