"""Limits each owner's share of an engine: sandboxes, processors, memory, disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError, ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.state.rows import SandboxRow, VolumeRow


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that one owner may have at once; 0 means no limit.

    Sandboxes, processors and memory count while a sandbox runs or is paused with its memory. Disk
    is what sandboxes, paused ones too, and volumes may fill.
    """

    sandboxes: int = 0
    processors: int = 0
    memory_mb: int = 0
    disk_mb: int = 0


_UNITS: Final = {
    "sandboxes": "sandboxes",
    "processors": "processors",
    "memory_mb": "MiB of memory",
    "disk_mb": "MiB of disk",
}


def parse_quota(given: Mapping[str, int], where: str) -> Quota:
    """The quota in a setting called ``where``; raises ``InvalidArgumentError``."""
    for name, value in given.items():
        if name not in _UNITS:
            raise InvalidArgumentError(f"{where}: '{name}' is none of {', '.join(_UNITS)}")
        if value < 0:
            raise InvalidArgumentError(f"{where}: {name} must be at least 0")
    return Quota(**given)


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quota of each owner; the operator, whose name is empty, has none."""

    default: Quota = Quota()
    of_owners: Mapping[str, Quota] = field(default_factory=dict[str, Quota])
    volume_size_mb: int = 0
    """The size that each volume counts with, whatever is in it."""

    def of(self, owner: str) -> Quota:
        """The quota of an owner."""
        return self.of_owners.get(owner, self.default) if owner else Quota()

    def check_sandbox(
        self, row: SandboxRow, slots: Iterable[Slot], volumes: Iterable[VolumeRow]
    ) -> None:
        """Raise ``ResourceExhaustedError`` unless its owner may start the sandbox of ``row``."""
        if self.of(row.owner) == Quota():
            return
        others = [
            slot
            for slot in slots
            if slot.row.owner == row.owner and slot.sandbox_id != row.sandbox_id
        ]
        running = [slot.row for slot in others if slot.occupies]
        disk = self._volumes_mb(row.owner, volumes) + sum(o.row.disk_size_mb for o in others)
        self._check(
            row.owner,
            sandboxes=(len(running), 1),
            processors=(sum(other.cpu_count for other in running), row.cpu_count),
            memory_mb=(sum(other.memory_mb for other in running), row.memory_mb),
            disk_mb=(disk, row.disk_size_mb),
        )

    def check_volume(self, owner: str, slots: Iterable[Slot], volumes: Iterable[VolumeRow]) -> None:
        """Raise ``ResourceExhaustedError`` unless the owner may make another volume."""
        if not self.of(owner).disk_mb:
            return
        disk = self._volumes_mb(owner, volumes)
        disk += sum(slot.row.disk_size_mb for slot in slots if slot.row.owner == owner)
        self._check(owner, disk_mb=(disk, self.volume_size_mb))

    def _volumes_mb(self, owner: str, volumes: Iterable[VolumeRow]) -> int:
        return self.volume_size_mb * sum(row.owner == owner for row in volumes)

    def _check(self, owner: str, **uses: tuple[int, int]) -> None:
        """Check the amounts in use and the wanted ones, by the names of ``Quota``."""
        quota = self.of(owner)
        for name, (used, wanted) in uses.items():
            limit: int = getattr(quota, name)
            if limit and used + wanted > limit:
                raise ResourceExhaustedError(
                    f"'{owner}' may have {limit} {_UNITS[name]} on this engine, has {used} and"
                    f" asks for {wanted} more: end something, or ask whoever runs the engine for"
                    " a greater quota"
                )
