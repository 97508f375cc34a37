"""Routes that change sandboxes: pause, fork, timeout, network, metadata (interface S10 to S14)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError, SbxError, UnavailableError
from sbx_jupyter.protocol.platform import (
    Error,
    ForkRequest,
    ForkResult,
    ListedSandbox,
    MetadataRequest,
    NetworkConfig,
    PauseRequest,
    RefreshRequest,
    TimeoutRequest,
)
from sbx_jupyter.service.answers import platform_status
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.rows import SandboxRow

_MAX_FORKS: Final = 100
_HEALTH_TIMEOUT: Final = 5.0
_MIN_REFRESH: Final = 15
_MAX_REFRESH: Final = 3600
_MAX_TIMEOUT: Final = 2**31 - 1


class PauseHandler(PlatformHandler):
    """``/sandboxes/{id}/pause``."""

    @operation(
        "Pause a sandbox (S10)",
        body=PauseRequest,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(PauseRequest, optional=True)
        sandbox_id = self.sandbox_id(sandbox_id)
        if request.require_healthy_guest:
            await self._check_health(sandbox_id)
        await self.service.engine.sandboxes.pause(sandbox_id, request.memory)
        self.answer(status=204)

    async def _check_health(self, sandbox_id: str) -> None:
        """Raise ``UnavailableError`` when the sandbox runs and does not answer."""
        sandbox = self.service.engine.sandboxes.find_live(sandbox_id)
        if sandbox is None:
            return  # the pause raises the error
        try:
            async with asyncio.timeout(_HEALTH_TIMEOUT):
                await sandbox.files.stat("/")
        except (TimeoutError, UnavailableError):
            raise UnavailableError("the sandbox does not answer and was not paused") from None


class ForkHandler(PlatformHandler):
    """``/sandboxes/{id}/fork``."""

    @operation(
        "Start copies of a running sandbox (S11)",
        body=ForkRequest,
        is_body_optional=True,
        answers={201: list[ForkResult]},
        errors=(*COMMON_ERRORS, 409, 503),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(ForkRequest, optional=True)
        if not 1 <= request.count <= _MAX_FORKS:
            raise InvalidArgumentError(
                f"validation error: count must be between 1 and {_MAX_FORKS}"
            )
        if not 0 <= request.timeout <= _MAX_TIMEOUT:
            raise InvalidArgumentError("validation error: timeout must be at least 0")
        forks = await self.service.engine.forks.create(
            self.sandbox_id(sandbox_id), request.timeout, request.count
        )
        made = [fork.sandbox_id for fork in forks if not isinstance(fork, SbxError)]
        self.routed.made = tuple(made)
        self.answer([self._result(fork) for fork in forks], 201)

    def _result(self, fork: SandboxRow | SbxError) -> ForkResult:
        if isinstance(fork, SbxError):
            return ForkResult(error=Error(code=platform_status(fork), message=fork.message))
        return ForkResult(sandbox=fork.to_sandbox(self.service.settings.domain))


class MetadataHandler(PlatformHandler):
    """``/engine/sandboxes/{id}``: an addition to the platform API, used to rename a sandbox."""

    @operation(
        "Change a sandbox's metadata",
        body=MetadataRequest,
        answers={200: ListedSandbox},
        errors=(*COMMON_ERRORS, 409),
    )
    async def patch(self, sandbox_id: str) -> None:
        request = self.read_body(MetadataRequest)
        row = await self.service.engine.sandboxes.set_metadata(
            self.sandbox_id(sandbox_id), request.metadata
        )
        self.answer(row.to_listed())


class TimeoutHandler(PlatformHandler):
    """``/sandboxes/{id}/timeout``."""

    @operation(
        "Set the end time of a sandbox (S12)",
        body=TimeoutRequest,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def post(self, sandbox_id: str) -> None:
        timeout = min(max(0, self.read_body(TimeoutRequest).timeout), _MAX_TIMEOUT)
        await self.service.engine.sandboxes.set_timeout(self.sandbox_id(sandbox_id), timeout)
        self.answer(status=204)


class RefreshHandler(PlatformHandler):
    """``/sandboxes/{id}/refreshes``."""

    @operation(
        "Extend the time of a sandbox (S13)",
        body=RefreshRequest,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def post(self, sandbox_id: str) -> None:
        duration = self.read_body(RefreshRequest, optional=True).duration
        if duration is not None and not 0 <= duration <= _MAX_REFRESH:
            raise InvalidArgumentError(
                f"validation error: duration must be between 0 and {_MAX_REFRESH}"
            )
        await self.service.engine.sandboxes.refresh(
            self.sandbox_id(sandbox_id), max(duration or 0, _MIN_REFRESH)
        )
        self.answer(status=204)


class NetworkHandler(PlatformHandler):
    """``/sandboxes/{id}/network``."""

    @operation(
        "Replace the egress rules of a sandbox (S14)",
        body=NetworkConfig,
        is_body_optional=True,
        answers={204: None},
        errors=(*COMMON_ERRORS, 409),
    )
    async def put(self, sandbox_id: str) -> None:
        request = self.read_body(NetworkConfig, optional=True)
        await self.service.engine.sandboxes.set_network(self.sandbox_id(sandbox_id), request)
        self.answer(status=204)
