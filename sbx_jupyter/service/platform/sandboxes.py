"""Routes that create, find, resume and end sandboxes (interface 1.3: S1 to S9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, cast

from sbx_jupyter.engine.sandboxes.listing import SandboxFilter
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import (
    DEFAULT_TIMEOUT,
    DEFAULT_TIMEOUT_V1,
    ConnectSandbox,
    ListedSandbox,
    NewSandbox,
    ResumeSandbox,
    Sandbox,
    SandboxDetail,
)
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import (
    COMMON_ERRORS,
    LIMIT,
    NEXT_TOKEN,
    PlatformHandler,
    parse_metadata,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.rows import SandboxRow

_MAX_TIMEOUT: Final = 2**31 - 1
_METADATA: Final = Parameter("metadata", {"type": "string"}, "Pairs key=value that all must match.")
_STATE: Final = Parameter(
    "state",
    {"type": "array", "items": {"type": "string", "enum": ["running", "paused"]}},
    "The states to list; default: both.",
)


class _SandboxAnswers(PlatformHandler):
    """Base of the handlers that answer with one sandbox."""

    def answer_sandbox(self, row: SandboxRow, status: int) -> None:
        self.routed.made = (row.sandbox_id,)
        self.answer(row.to_sandbox(self.service.settings.domain), status)

    def connect_timeout(self, timeout: int | None, default: int | None) -> int:
        """The timeout of a connect or resume in seconds.

        Raises ``InvalidArgumentError`` for a negative one, and for none without a ``default``.
        """
        if timeout is None:
            if default is None:
                raise InvalidArgumentError("validation error: timeout is required")
            return default
        if not 0 <= timeout <= _MAX_TIMEOUT:
            raise InvalidArgumentError("validation error: timeout must be at least 0")
        return timeout


class SandboxesV2Handler(_SandboxAnswers):
    """``/v2/sandboxes``."""

    @operation(
        "Create a sandbox (S1)",
        body=NewSandbox,
        answers={201: Sandbox},
        errors=(*COMMON_ERRORS, 403, 409, 413, 422, 503, 504),
    )
    async def post(self) -> None:
        await self.create(version=2)

    async def create(self, version: int) -> None:
        """Create a sandbox by the rules of ``version`` 1 or 2."""
        request = self.read_body(NewSandbox)
        row = await self.service.engine.sandboxes.create(
            request,
            version=version,
            idempotency_key=self.request.headers.get("Idempotency-Key"),
        )
        self.answer_sandbox(row, 201)

    @operation(
        "List sandboxes in pages (S3)",
        answers={200: list[ListedSandbox]},
        errors=COMMON_ERRORS,
        query=(
            _STATE,
            _METADATA,
            Parameter("template", {"type": "string"}, "Template id or alias."),
            Parameter("startedAfter", {"type": "string", "format": "date-time"}, "Inclusive."),
            Parameter("order", {"type": "string", "enum": ["asc", "desc"], "default": "desc"}),
            LIMIT,
            NEXT_TOKEN,
        ),
    )
    async def get(self) -> None:
        page = self.service.engine.sandboxes.list(
            SandboxFilter(
                states=self._states(),
                metadata=parse_metadata(self.query_text("metadata") or ""),
                template=self.query_text("template") or None,
                started_after=self.query_time("startedAfter"),
                order=cast(
                    'Literal["asc", "desc"]', self.query_choice("order", ("asc", "desc"), "desc")
                ),
                limit=self.query_int("limit", 100, minimum=1, maximum=100),
                next_token=self.query_text("nextToken") or None,
            )
        )
        self.set_header("X-Total-Running", str(page.total_running))
        self.answer_page([row.to_listed() for row in page.sandboxes], page.next_token)

    def _states(self) -> frozenset[Any]:
        states = self.query_list("state")
        for state in states:
            if state not in ("running", "paused"):
                raise InvalidArgumentError("validation error: state must be one of running, paused")
        return frozenset(states or ("running", "paused"))


class SandboxesV1Handler(SandboxesV2Handler):
    """``/sandboxes``."""

    @operation(
        "Create a sandbox, old form (S2)",
        body=NewSandbox,
        answers={201: Sandbox},
        errors=(*COMMON_ERRORS, 403, 409, 413, 422, 503, 504),
    )
    async def post(self) -> None:
        await self.create(version=1)

    @operation(
        "List running sandboxes (S4)",
        answers={200: list[ListedSandbox]},
        errors=COMMON_ERRORS,
        query=(_METADATA,),
    )
    async def get(self) -> None:
        page = self.service.engine.sandboxes.list(
            SandboxFilter(
                states=frozenset({"running"}),
                metadata=parse_metadata(self.query_text("metadata") or ""),
                limit=None,
            )
        )
        self.answer([row.to_listed() for row in page.sandboxes])


class SandboxHandler(PlatformHandler):
    """``/sandboxes/{id}``."""

    @operation("Describe a sandbox (S5)", answers={200: SandboxDetail}, errors=COMMON_ERRORS)
    async def get(self, sandbox_id: str) -> None:
        row = self.service.engine.sandboxes.get(self.sandbox_id(sandbox_id))
        self.answer(row.to_detail(self.service.settings.domain))

    @operation("End a sandbox (S6)", answers={204: None}, errors=(*COMMON_ERRORS, 409))
    async def delete(self, sandbox_id: str) -> None:
        await self.service.engine.sandboxes.kill(self.sandbox_id(sandbox_id))
        self.answer(status=204)


class ConnectV2Handler(_SandboxAnswers):
    """``/v2/sandboxes/{id}/connect``."""

    @operation(
        "Connect to a sandbox, and resume it if it is paused (S7)",
        body=ConnectSandbox,
        is_body_optional=True,
        answers={200: Sandbox, 201: Sandbox},
        errors=(*COMMON_ERRORS, 409, 503, 504),
    )
    async def post(self, sandbox_id: str) -> None:
        await self.connect(sandbox_id, DEFAULT_TIMEOUT)

    async def connect(self, sandbox_id: str, default: int | None) -> None:
        """Connect; ``default`` is the timeout of a request without one, ``None`` to refuse it."""
        request = self.read_body(ConnectSandbox, optional=True)
        timeout = self.connect_timeout(request.timeout, default)
        row, resumed = await self.service.engine.sandboxes.connect(
            self.sandbox_id(sandbox_id), timeout, request.memory
        )
        self.answer_sandbox(row, 201 if resumed else 200)


class ConnectV1Handler(ConnectV2Handler):
    """``/sandboxes/{id}/connect``."""

    @operation(
        "Connect to a sandbox, old form (S8)",
        body=ConnectSandbox,
        answers={200: Sandbox, 201: Sandbox},
        errors=(*COMMON_ERRORS, 409, 503, 504),
    )
    async def post(self, sandbox_id: str) -> None:
        await self.connect(sandbox_id, None)


class ResumeHandler(_SandboxAnswers):
    """``/sandboxes/{id}/resume``."""

    @operation(
        "Resume a paused sandbox (S9)",
        body=ResumeSandbox,
        is_body_optional=True,
        answers={201: Sandbox},
        errors=(*COMMON_ERRORS, 409, 503, 504),
    )
    async def post(self, sandbox_id: str) -> None:
        request = self.read_body(ResumeSandbox, optional=True)
        timeout = self.connect_timeout(request.timeout, DEFAULT_TIMEOUT_V1)
        row = await self.service.engine.sandboxes.resume(
            self.sandbox_id(sandbox_id), timeout, request.memory, auto_pause=request.auto_pause
        )
        self.answer_sandbox(row, 201)
