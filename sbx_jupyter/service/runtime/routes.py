"""The routes of one sandbox's runtime, port 49983 (interface 3 and 4)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.protocol.runtime import ComposeRequest, Reading, WrittenFile
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.runtime import filesystem, process
from sbx_jupyter.service.runtime.connect import RpcHandler
from sbx_jupyter.service.runtime.files import FilesHandler
from sbx_jupyter.service.runtime.runtime_handler import RuntimeJsonHandler

METHODS: Final = {**filesystem.METHODS, **process.METHODS}


class HealthHandler(RuntimeJsonHandler):
    """``/health``: whether the sandbox runs."""

    needs_token: ClassVar[bool] = False

    @operation("Whether the sandbox runs", answers={204: None}, errors=(502,))
    async def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.answer_nothing()


class MetricsHandler(RuntimeJsonHandler):
    """``/metrics``."""

    @operation("What the sandbox uses now", answers={200: Reading}, errors=(401, 502))
    async def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.answer(await self.sandbox.read_metrics())


class EnvsHandler(RuntimeJsonHandler):
    """``/envs``."""

    @operation("The global environment", answers={200: dict[str, str]}, errors=(401, 502))
    async def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.answer(self.sandbox.envs)


class ComposeHandler(RuntimeJsonHandler):
    """``/files/compose`` (interface 4.6)."""

    @operation(
        "Join files into one",
        body=ComposeRequest,
        answers={200: WrittenFile},
        errors=(400, 401, 404, 500, 502, 507),
    )
    async def post(self) -> None:
        request = self.read_body(ComposeRequest)
        self.service.note_runtime_call(self.routed, "files.compose", request.destination)
        self.answer(
            await self.sandbox.files.compose(
                request.source_paths, request.destination, request.username
            )
        )


class UnknownRuntimeRouteHandler(RuntimeJsonHandler):
    """Answers what no route matches with 404."""

    async def admit(self) -> None:
        await super().admit()
        raise NotFoundError("no such route")


RUNTIME_ROUTES: Final[tuple[Any, ...]] = (
    (r"(?:/)([a-z]+\.[A-Za-z]+/[A-Za-z]+)", RpcHandler, {"methods": METHODS}),
    ("/files", FilesHandler),
    ("/files/compose", ComposeHandler),
    ("/health", HealthHandler),
    ("/metrics", MetricsHandler),
    ("/envs", EnvsHandler),
)
