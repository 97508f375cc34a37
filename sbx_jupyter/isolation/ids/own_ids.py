"""Gives each sandbox of a zygote a block of ids, and has it held as long as the sandbox lives.

Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.ids.holder import Holder

if TYPE_CHECKING:
    from sbx_jupyter.isolation.ids.blocks import Block, Blocks
    from sbx_jupyter.isolation.zygote.cage_records import CageRecords

_ATTEMPTS: Final = 8
"""The making of a sandbox fails when so many holders were killed over it."""


class OwnIds:
    """The blocks of one zygote's sandboxes."""

    def __init__(
        self, blocks: Blocks, holder: Holder, cages: CageRecords, poll: select.poll
    ) -> None:
        """Take the blocks of living sandboxes of ``cages`` again that nobody holds.

        They are held, unless the holder was killed. ``poll`` is to tell when it ends, or that it
        has, and ``replace_holder`` to be called then. Raises ``OSError``.
        """
        self._poll = poll
        self._poll.register(holder, select.POLLIN)
        self._blocks = blocks
        self._holder = holder
        self._cages = cages
        self._hold_survivors()

    def take(self) -> Block:
        """A block for the next sandbox. Raises ``NoBlockLeftError``, ``OSError``."""
        return self._blocks.take()

    def keep(self, pidfd: int, block: Block) -> None:
        """Have a block held until the process of ``pidfd`` has ended. Raises ``OSError``."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._holder.keep(pidfd, block)
            except ConnectionError:
                if not left:
                    raise
                self.replace_holder()
        raise AssertionError("unreachable")

    def fileno(self) -> int:
        """The descriptor that tells in the poll that the holder has ended."""
        return self._holder.fileno()

    def replace_holder(self) -> None:
        """Start another holder after the end of the former. Raises ``OSError``."""
        self._poll.unregister(self._holder)
        self._holder.close()
        self._holder = Holder()
        self._poll.register(self._holder, select.POLLIN)
        self._hold_survivors()

    def _hold_survivors(self) -> None:
        # When the holder has ended, the next one holds them.
        with contextlib.suppress(ConnectionError):
            for state in self._cages.read_all(_ignore).values():
                if isinstance(base := state.get("id_base"), int):
                    self._hold_survivor(state, base)

    def _hold_survivor(self, state: dict[str, object], base: int) -> None:
        pid = state["pid"]
        if state["boot_id"] != procfs.boot_id() or not isinstance(pid, int):
            return
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            lives = procfs.start_time_of(pid) == state["start_time"]
            if lives and (block := self._blocks.retake(base)) is not None:
                try:
                    self._holder.keep(pidfd, block)
                finally:
                    os.close(block.lock)
        finally:
            os.close(pidfd)


def _ignore(_: str) -> None:
    """Do nothing: the engine logs files that are no records."""
