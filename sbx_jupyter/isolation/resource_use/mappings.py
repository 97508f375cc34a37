"""Lists the files that a process has mapped and that have no name any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DELETED: Final = " (deleted)"
"""The kernel adds this to the name of what has none; a name may end so by itself as well."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A part of a file in the memory of a process."""

    key: tuple[str, int]
    """Device, as text, and inode; not always those that ``stat`` gives."""

    start: int
    end: int
    offset: int
    is_segment: bool
    """Whether it is of System V, if it is in memory: files on a disk may have any name."""

    @property
    def name(self) -> str:
        """Its name in ``map_files``."""
        return f"{self.start:x}-{self.end:x}"

    @property
    def reach(self) -> int:
        """The least size of the file that the part shows."""
        return self.offset + self.end - self.start


def unnamed(pid: int) -> Iterator[Mapping]:
    """Each mapping of a file that may have no name. Raises ``OSError``."""
    for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
        if not line.endswith(_DELETED.encode()):
            continue
        span, _, offset, device, inode, name = line.split(None, 5)
        start, end = (int(number, 16) for number in span.split(b"-"))
        yield Mapping(
            key=(device.decode(), int(inode)),
            start=start,
            end=end,
            offset=int(offset, 16),
            is_segment=name.startswith(b"/SYSV"),
        )
