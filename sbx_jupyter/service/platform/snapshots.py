"""Routes that make and list snapshots (interface 1.4: S19 and S20)."""

from __future__ import annotations

from sbx_jupyter.engine.storage.snapshots import SnapshotFilter
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.platform import SnapshotInfo, SnapshotRequest
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import (
    COMMON_ERRORS,
    LIMIT,
    NEXT_TOKEN,
    PlatformHandler,
)


class SandboxSnapshotsHandler(PlatformHandler):
    """``/sandboxes/{id}/snapshots``."""

    @operation(
        "Make a snapshot of a running sandbox's files (S19)",
        body=SnapshotRequest,
        is_body_optional=True,
        answers={201: SnapshotInfo},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(SnapshotRequest, optional=True)
        info = await self.service.engine.snapshots.create(self.sandbox_id(sandbox_id), request.name)
        self.answer(info, 201)


class SnapshotsHandler(PlatformHandler):
    """``/snapshots``."""

    @operation(
        "List snapshots in pages (S20)",
        answers={200: list[SnapshotInfo]},
        errors=COMMON_ERRORS,
        query=(
            Parameter("sandboxID", {"type": "string"}, "Only snapshots of this sandbox."),
            Parameter("name", {"type": "string"}, "Alias, alias with tag, or id."),
            LIMIT,
            NEXT_TOKEN,
        ),
    )
    async def get(self) -> None:
        sandbox_id = self.query_text("sandboxID")
        snapshots, token = self.service.engine.snapshots.list(
            SnapshotFilter(
                # It may have ended; the list has the caller's snapshots only.
                sandbox_id=parse_sandbox_id(sandbox_id) if sandbox_id else None,
                name=self.query_text("name") or None,
                limit=self.query_int("limit", 100, minimum=1, maximum=100),
                next_token=self.query_text("nextToken") or None,
            )
        )
        self.answer_page(snapshots, token)
