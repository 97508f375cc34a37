"""Reads metrics and logs of sandboxes, and counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.engine.sandboxes.lifecycle import unknown_sandbox_error
from sbx_jupyter.engine.state.logs import LogFilter
from sbx_jupyter.engine.watch.gauges import Gauges, count_sandboxes

if TYPE_CHECKING:
    from sbx_jupyter.engine.sandboxes.pool import Pool
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.history import History
    from sbx_jupyter.engine.state.logs import Journal
    from sbx_jupyter.protocol.platform import SandboxLogEntry


class Observations:
    """Readings, logs and counts of the sandboxes of one engine."""

    def __init__(self, slots: Slots, pool: Pool, history: History, journal: Journal) -> None:
        self.history = history
        self._slots = slots
        self._pool = pool
        self._journal = journal

    def logs(self, sandbox_id: str, wanted: LogFilter | None = None) -> list[SandboxLogEntry]:
        """Log entries (S17 and S18), also of sandboxes that ended; raises ``NotFoundError``."""
        if sandbox_id not in self._journal and self._slots.get(sandbox_id) is None:
            raise unknown_sandbox_error(sandbox_id)
        found = self._journal.select(sandbox_id, wanted or LogFilter(direction="forward"))
        return [row.to_entry() for row in found]

    def gauges(self) -> Gauges:
        """Count sandboxes, processes and watches at this moment."""
        return count_sandboxes(self._slots, len(self._pool))
