"""Reads tars of strangers without reading what they claim of their headers into memory.

Standard library only, for the zygote.
"""

from __future__ import annotations

import tarfile
from typing import Any, Final

_MAX_HEADER: Final = 1024 * 1024
_HEADERS: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class LimitedTarInfo(tarfile.TarInfo):
    """Refuses extended headers that would be read into memory whole: ``tarfile.ReadError``."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > _MAX_HEADER:
            raise tarfile.ReadError("an extended header is too long")
        base: Any = super()  # typeshed does not know the method
        return base._proc_member(tar)
