"""Which sandboxes may live, on disk: written by the zygote before any of a sandbox runs.

Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import functools
import json
import select
from pathlib import Path
from typing import Any, Final

_ENDED: Final = ("Z", "X")
"""States of processes that only wait for their parents to look."""


class CageRecords:
    """One small file per sandbox that may live, for engines that forgot it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, sandbox_id: str, state: dict[str, Any]) -> None:
        """Remember a sandbox. Raises ``OSError``."""
        self._directory.mkdir(exist_ok=True)
        draft = self._directory / f".{sandbox_id}"
        draft.write_text(json.dumps(state))
        draft.rename(self._directory / sandbox_id)

    def remove(self, sandbox_id: str) -> None:
        """Forget a sandbox."""
        (self._directory / sandbox_id).unlink(missing_ok=True)

    def remove_drafts(self) -> None:
        """Remove what a zygote that died had not finished writing; no other may be writing."""
        for draft in self._directory.glob(".*"):
            draft.unlink(missing_ok=True)

    def read_all(self) -> dict[str, dict[str, Any]]:
        """Every remembered sandbox and its state."""
        if not self._directory.is_dir():
            return {}
        found: dict[str, dict[str, Any]] = {}
        for path in self._directory.iterdir():
            if path.name.startswith("."):
                continue
            with contextlib.suppress(ValueError):  # cut off by a crash of the machine
                found[path.name] = json.loads(path.read_text())
        return found


def identity(pid: int) -> dict[str, Any]:
    """What tells a living process from all others, also after its pid was given away again."""
    return {"pid": pid, "start_time": start_time_of(pid), "boot_id": boot_id()}


@functools.cache
def boot_id() -> str:
    """The identity of this boot: pids and start times mean nothing in another one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; None when it is gone, waited for or not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in _ENDED else int(fields[19])


def has_ended(pidfd: int) -> bool:
    """Whether a process ran to its end, also one that is still to be reaped."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
