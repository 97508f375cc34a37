"""Progress and cancellation of operations on sandboxes that may take long."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.errors import FailedPreconditionError, NotFoundError, UnavailableError
from sbx_jupyter.isolation.zygote.progress import Progress
from sbx_jupyter.protocol.disk import OperationKind, OperationPhase, SandboxOperation

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Generator


@dataclass(slots=True)
class Work:
    """One operation in progress."""

    sandbox_id: str
    kind: OperationKind
    phase: OperationPhase = "copying"
    total_bytes: int | None = None
    progress: Progress = field(default_factory=Progress)
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started_at: dt.datetime = field(default_factory=now)

    @property
    def is_cancellable(self) -> bool:
        """Whether it can be cancelled: a snapshot or fork that is still copying."""
        return self.phase == "copying" and self.kind != "pause"

    def describe(self) -> SandboxOperation:
        """The operation as clients see it.

        ``done_bytes`` never exceeds ``total_bytes``, even if files grow during the copy.
        """
        done = self.progress.done
        if self.total_bytes is not None:
            done = self.total_bytes if self.phase != "copying" else min(done, self.total_bytes)
        return SandboxOperation(
            operation_id=self.operation_id,
            kind=self.kind,
            phase=self.phase,
            started_at=self.started_at,
            done_bytes=done,
            total_bytes=self.total_bytes,
            cancellable=self.is_cancellable and not self.progress.is_cancelled,
        )


class Operations:
    """All operations in progress of one engine."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        self._is_closed = False

    def close(self) -> None:
        """Cancel operations where possible, and refuse new ones: the engine stops."""
        self._is_closed = True
        for work in self._works.values():
            if work.is_cancellable:
                work.progress.cancel()

    @contextlib.contextmanager
    def begin(self, sandbox_id: str, kind: OperationKind) -> Generator[Work]:
        """List an operation as in progress until the context ends.

        Raises ``UnavailableError`` for a snapshot or fork when the engine stops.
        """
        if self._is_closed and kind != "pause":
            raise UnavailableError(f"the engine stops: no {kind} is made")
        work = Work(sandbox_id, kind)
        self._works[work.operation_id] = work
        try:
            yield work
        finally:
            del self._works[work.operation_id]
            work.progress.close()

    def of(self, sandbox_id: str) -> list[SandboxOperation]:
        """The operations in progress on a sandbox, oldest first."""
        return [work.describe() for work in self._works.values() if work.sandbox_id == sandbox_id]

    def cancel(self, sandbox_id: str, operation_id: str) -> None:
        """Cancel an operation; the caller that waits for it gets an error.

        Raises ``NotFoundError``, and ``FailedPreconditionError`` when it can no longer be
        cancelled.
        """
        work = self._works.get(operation_id)
        if work is None or work.sandbox_id != sandbox_id:
            raise NotFoundError(f"there is no operation '{operation_id}' in progress")
        if not work.is_cancellable:
            raise FailedPreconditionError(
                f"the {work.kind} is {work.phase} and cannot be cancelled any more"
            )
        work.progress.cancel()
