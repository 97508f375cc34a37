"""Maps the user and group ids of a sandbox to ids of the host, and writes the map."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT_MAPPED: Final = "root-mapped"
"""The engine is root: 65536 ids for a sandbox, files keep their ids through idmapped mounts."""

SUBORDINATE: Final = "subordinate"
"""An ordinary user with a range in /etc/subuid: newuidmap once for the zygote's namespace."""

VIRTUAL: Final = "virtual"
"""An ordinary user: ``root`` and ``user`` are two names of one id."""

HOST: Final = "host"
"""No user namespace at all: the ids of the engine."""

OWN: Final = "own"
"""Each sandbox has a block of host ids of its own; see ``isolation.ids``."""

SHARED: Final = "shared"
"""All sandboxes of a user, or of root, have the same host ids."""

RANGE: Final = 65536
_SHARED_BASES: Final = (200_000, 100_000, RANGE)

Extents = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""The ids of users and those of groups, as pairs of the first and the one after the last."""


def shared_base() -> int | None:
    """The first host id of one range for all sandboxes of root.

    0 shares the container's own ids; None: there is no room.
    """
    extents = extents_of_this_namespace()
    for base in _SHARED_BASES:
        if contains(extents, base, RANGE):
            return base
    return 0 if all(e and e[0][0] == 0 and e[0][1] >= RANGE for e in extents) else None


def extents_of_this_namespace() -> Extents:
    """The ids that exist in this process's user namespace."""
    return _extents("/proc/self/uid_map"), _extents("/proc/self/gid_map")


def contains(extents: Extents, base: int, count: int) -> bool:
    """Whether ``count`` ids from ``base`` exist, for users and for groups."""
    return all(any(start <= base and base + count <= end for start, end in e) for e in extents)


def _extents(path: str) -> list[tuple[int, int]]:
    rows = [line.split() for line in Path(path).read_text().splitlines()]
    return [(int(row[0]), int(row[0]) + int(row[2])) for row in rows]


def subordinate_range(path: str) -> tuple[int, int] | None:
    """First id and count of this user's range in /etc/subuid or /etc/subgid."""
    names = {str(os.getuid()), login_name()}
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split(":")
        if len(fields) == 3 and fields[0] in names and int(fields[2]) >= RANGE - 1:
            return int(fields[1]), int(fields[2])
    return None


def can_use_subordinate() -> bool:
    """Whether newuidmap and a range for this user are there."""
    tools = shutil.which("newuidmap") and shutil.which("newgidmap")
    ranges = subordinate_range("/etc/subuid") and subordinate_range("/etc/subgid")
    return bool(tools and ranges)


def map_subordinate(pid: int) -> None:
    """Map the zygote's namespace: id 0 is this user, 1..65535 its subordinate range.

    Raises ``OSError`` or ``subprocess.CalledProcessError``.
    """
    for tool, own, path in (
        ("newuidmap", os.getuid(), "/etc/subuid"),
        ("newgidmap", os.getgid(), "/etc/subgid"),
    ):
        found = subordinate_range(path)
        if found is None:
            raise FileNotFoundError(path)
        extents = ["0", str(own), "1", "1", str(found[0]), str(RANGE - 1)]
        subprocess.run([tool, str(pid), *extents], check=True, capture_output=True, timeout=10)


def sandbox_map(users: str, base: int, own: int) -> str:
    """The id map of one sandbox, as seen from the zygote's user namespace."""
    if users == ROOT_MAPPED:
        return f"0 {base} {RANGE}"
    if users == SUBORDINATE:
        # Two extents: one may not reach over two extents of the parent's map.
        return f"0 0 1\n1 1 {RANGE - 1}"
    return f"0 {own} 1"


def write_maps(pid: int, uid_map: str, gid_map: str) -> None:
    """Give the user namespace of ``pid`` its ids. Raises ``OSError``."""
    for name, text in (("uid_map", uid_map), ("gid_map", gid_map)):
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def login_name() -> str:
    """The name of this user, or its number where it has none."""
    uid = os.getuid()
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(uid):
            return fields[0]
    return str(uid)
