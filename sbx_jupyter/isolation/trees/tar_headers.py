"""Reads tars of strangers, whose headers claim what they like, in bounded memory and time.

Python's own reader takes quadratic time for some extended headers before 3.11.10 (CVE-2024-6232),
and none of its versions limits what headers take. Standard library only, for the zygote.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_HEADER: Final = 1024 * 1024
_MAX_IN_A_ROW: Final = 8
_MAX_SIZE: Final = 1 << 60
"""Larger ones are no offset that a file can have."""

_HEADERS: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_MAX_LENGTH_DIGITS: Final = 20
_DAMAGED: Final = "an extended header is damaged"
_SPARSE: Final = "sparse files are not supported"


class LimitedTarInfo(tarfile.TarInfo):
    """An entry of a ``LimitedTarFile``; overrides how tarfile reads the headers of one."""

    def _proc_member(self, tar: LimitedTarFile) -> tarfile.TarInfo:
        base: Any = super()  # typeshed does not know the method
        _check_size(self)
        if self.type not in _HEADERS:
            tar.begin_entry()
            return base._proc_member(tar)
        tar.begin_header(self.size, for_all=self.type == tarfile.XGLTYPE)
        try:
            member = base._proc_member(tar)
        finally:
            tar.end_header()
        _check_size(member)
        return member

    def _proc_sparse(self, _: LimitedTarFile) -> tarfile.TarInfo:
        # The list of their segments has no limit, and layers and clients never have them.
        raise tarfile.ReadError(_SPARSE)

    def _proc_pax(self, tar: Any) -> tarfile.TarInfo:
        this: Any = self  # typeshed does not know the methods
        body: bytes = tar.fileobj.read(this._block(self.size))[: self.size]
        if len(body) < self.size:
            raise tarfile.ReadError("unexpected end of data")
        found = dict(_records(body))
        fields: dict[str, str] = {**tar.pax_headers, **found}
        if self.type == tarfile.XGLTYPE:
            if "size" in found:
                # tarfile would show it for entries and yet skip what their own headers say.
                raise tarfile.ReadError("a global header gives a size")
            tar.pax_headers.update(found)
        try:
            member: Any = self.fromtarfile(tar)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None
        if self.type != tarfile.XGLTYPE:
            member._apply_pax_info(fields, tar.encoding, tar.errors)
            member.offset = self.offset
            if "size" in fields:
                has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
                length = member._block(member.size) if has_content else 0
                tar.offset = member.offset_data + length
        return member


class LimitedTarFile(tarfile.TarFile):
    """Refuses headers that would take much memory or time: ``tarfile.ReadError``."""

    tarinfo = LimitedTarInfo
    max_headers = 256 * 1024 * 1024
    """The bytes that all extended headers may have, those of global ones for each entry."""

    _taken = 0
    _global = 0
    _in_a_row = 0

    def begin_entry(self) -> None:
        """Count the copy that each entry gets of what global headers say."""
        self._take(self._global)

    def begin_header(self, size: int, *, for_all: bool) -> None:
        """Count an extended header; ``end_header`` follows when the entry after it was read."""
        if self._in_a_row == _MAX_IN_A_ROW:
            raise tarfile.ReadError("too many extended headers in a row")
        if size > _MAX_HEADER:
            raise tarfile.ReadError("an extended header is too long")
        self._take(size)
        self._in_a_row += 1
        if for_all:
            self._global += size

    def end_header(self) -> None:
        """Count down again."""
        self._in_a_row -= 1

    def _take(self, size: int) -> None:
        self._taken += size
        if self._taken > self.max_headers:
            raise tarfile.ReadError("the extended headers are too long together")


def _check_size(member: tarfile.TarInfo) -> None:
    # A negative one would read everything that follows at once, or count against other sizes.
    if not 0 <= member.size <= _MAX_SIZE:
        raise tarfile.ReadError("a size that no file has")


def _records(body: bytes) -> Iterator[tuple[str, str]]:
    """The records of a PAX header, ``<length> <key>=<value>\\n``; raises ``tarfile.ReadError``.

    What is not UTF-8 becomes surrogates, as in names of files, whatever ``hdrcharset`` says: so it
    is the same bytes again when it is written.
    """
    position = 0
    while position < len(body) and body[position] != 0:
        length, space, _ = body[position : position + _MAX_LENGTH_DIGITS + 1].partition(b" ")
        if not space or not length.isdigit():
            raise tarfile.ReadError(_DAMAGED)
        start, end = position + len(length) + 1, position + int(length)
        if not start < end <= len(body) or body[end - 1] != ord("\n"):
            raise tarfile.ReadError(_DAMAGED)
        key, equals, value = body[start : end - 1].partition(b"=")
        if not key or not equals:
            raise tarfile.ReadError(_DAMAGED)
        if key.startswith(b"GNU.sparse."):
            raise tarfile.ReadError(_SPARSE)
        yield key.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")
        position = end
