"""Disk use, and long operations on sandboxes: additions to the platform API."""

from __future__ import annotations

from typing import ClassVar

from sbx_jupyter.protocol.disk import DiskUse, PruneAnswer, PruneRequest, SandboxOperation
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

_DAY = 86400
_MAX_AGE = Parameter(
    "maxAge",
    {"type": "integer", "minimum": 0, "maximum": _DAY, "default": 30},
    "The greatest age of the measurement in seconds.",
)


class DiskHandler(PlatformHandler):
    """``/engine/disk``."""

    needs_own_key: ClassVar[bool] = True

    @operation(
        "Report the disk use of templates, sandboxes, volumes and caches",
        answers={200: DiskUse},
        errors=(*COMMON_ERRORS, 403),
        query=(_MAX_AGE,),
    )
    async def get(self) -> None:
        max_age = self.query_int("maxAge", 30, minimum=0, maximum=_DAY)
        self.answer(await self.service.engine.storage.disk.report(max_age))


class PruneHandler(PlatformHandler):
    """``/engine/prune``."""

    needs_own_key: ClassVar[bool] = True

    @operation(
        "Remove cached files that nothing uses",
        body=PruneRequest,
        is_body_optional=True,
        answers={200: PruneAnswer},
        errors=(*COMMON_ERRORS, 403),
    )
    async def post(self) -> None:
        request = self.read_body(PruneRequest, optional=True)
        self.answer(await self.service.engine.storage.prune.run(request))


class OperationsHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/operations``."""

    @operation(
        "List the long operations in progress on a sandbox",
        answers={200: list[SandboxOperation]},
        errors=COMMON_ERRORS,
    )
    async def get(self, sandbox_id: str) -> None:
        self.answer(self.service.engine.sandboxes.operations(self.sandbox_id(sandbox_id)))


class OperationHandler(PlatformHandler):
    """``/engine/sandboxes/{id}/operations/{operation}``."""

    @operation(
        "Cancel a snapshot or a fork while it copies",
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def delete(self, sandbox_id: str, operation_id: str) -> None:
        self.service.engine.sandboxes.cancel_operation(self.sandbox_id(sandbox_id), operation_id)
        self.answer(status=204)
