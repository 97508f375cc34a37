"""Copies the content of one open file into another, inside the kernel."""

from __future__ import annotations

import errno
import os
from typing import Final

_COPY_CHUNK: Final = 64 << 20
_NOT_COPYABLE: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def append(source: int, output: int, size: int) -> None:
    """Append ``size`` bytes of one file to another. Raises ``OSError``."""
    copy = os.copy_file_range
    while size > 0:
        try:
            copied = copy(source, output, min(size, _COPY_CHUNK))
        except OSError as error:
            if copy is not os.copy_file_range or error.errno not in _NOT_COPYABLE:
                raise
            copy = _send_file
            continue
        if not copied:
            break  # it shrank meanwhile
        size -= copied


def replace(source: int, target: int, size: int) -> None:
    """Make the first ``size`` bytes of one file all that is in another. Raises ``OSError``."""
    os.lseek(source, 0, os.SEEK_SET)
    append(source, target, size)
    os.ftruncate(target, size)


def _send_file(source: int, output: int, count: int) -> int:
    return os.sendfile(output, source, None, count)
