"""Builds of templates: requests, uploads, starts, status and logs (interface 1.5, T1 to T6)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, ClassVar, Final, cast

from sbx_jupyter.engine.templates.uploads import check_hash, stored_hash
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.templates import (
    LEVELS,
    MAX_LOG_PAGE,
    BuildInfo,
    BuildLogs,
    BuildStart,
    FileUpload,
    ImportedImage,
    TemplateAnswer,
    TemplateRequest,
)
from sbx_jupyter.service.gateway.dispatch import UPLOAD_PATH
from sbx_jupyter.service.gateway.routing import host_name
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from sbx_jupyter.engine.templates.uploads import Upload
    from sbx_jupyter.protocol.templates import Level

_UNLIMITED: Final = 1 << 62
_PAGE: Final = Parameter(
    "limit",
    {"type": "integer", "minimum": 0, "maximum": MAX_LOG_PAGE, "default": MAX_LOG_PAGE},
)
_LEVEL: Final = Parameter("level", {"enum": list(LEVELS)}, "The lowest level to return.")


class BuildRequestHandler(PlatformHandler):
    """``/v3/templates``."""

    @operation(
        "Announce a build of a template (T1)",
        body=TemplateRequest,
        answers={202: TemplateAnswer},
        errors=(*COMMON_ERRORS, 403, 409),
    )
    async def post(self) -> None:
        request = self.read_body(TemplateRequest)
        self.answer(await self.service.engine.templates.builder.request(request), 202)


class UploadLinkHandler(PlatformHandler):
    """``/templates/{id}/files/{hash}``."""

    @operation(
        "Ask where to upload files (T2)",
        answers={201: FileUpload},
        errors=(*COMMON_ERRORS, 403, 503),
    )
    async def get(self, reference: str, files_hash: str) -> None:
        templates = self.service.engine.templates
        check_hash(files_hash)
        stored = stored_hash(files_hash, templates.listing.owner_of_changeable(reference))
        link = await asyncio.to_thread(templates.uploads.sign, stored)
        present = await asyncio.to_thread(templates.uploads.has, stored)
        self.answer(FileUpload(present=present, url=f"{self._origin()}{UPLOAD_PATH}{link}"), 201)

    def _origin(self) -> str:
        """The scheme and host that the client used, also when a TLS terminator is in between.

        A terminator says so in its headers; without them, hosts of the domain that is configured
        for engines behind one are taken to be reached by TLS.
        """
        headers, domain = self.request.headers, self.service.settings.domain
        host = headers.get("X-Forwarded-Host", "").partition(",")[0].strip() or self.request.host
        name = host_name(host).lower()
        is_configured = domain is not None and (name == domain or name.endswith(f".{domain}"))
        default = "https" if is_configured else self.request.protocol
        scheme = headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
        return f"{scheme if scheme in ('http', 'https') else default}://{host}"


class ReceivingHandler(PlatformHandler):
    """Base of the uploads: writes a body of any size to the disk."""

    max_body_size: ClassVar[int] = _UNLIMITED
    _upload: Upload | None = None

    async def receive(self, chunk: bytes) -> None:
        if self._upload is not None:
            await asyncio.to_thread(self._upload.write, chunk)

    def release(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.drop()


class UploadHandler(ReceivingHandler):
    """``/template-uploads/{token}``: the link is the credential."""

    needs_key: ClassVar[bool] = False

    async def admit(self) -> None:
        if self.request.method == "PUT":
            uploads = self.service.engine.templates.uploads
            files_hash = await asyncio.to_thread(uploads.check, self.path_args[0])
            self._upload = await asyncio.to_thread(uploads.begin, files_hash)

    @operation(
        "Upload files for a COPY step (T3)",
        body="application/octet-stream",
        answers={200: None},
        errors=(400, 403, 429, 500),
    )
    async def put(self, token: str) -> None:
        if self._upload is None:
            raise InvalidArgumentError("the upload has ended")
        await asyncio.to_thread(self._upload.finish)
        self.answer()


class BuildStartHandler(PlatformHandler):
    """``/v2/templates/{id}/builds/{id}``."""

    @operation(
        "Start a build (T4)", body=BuildStart, answers={202: None}, errors=(*COMMON_ERRORS, 409)
    )
    async def post(self, reference: str, build_id: str) -> None:
        request = self.read_body(BuildStart)
        await self.service.engine.templates.builder.start(reference, build_id, request)
        self.answer(status=202)


class DockerfileStartHandler(PlatformHandler):
    """``/templates/{id}/builds/{id}``."""

    @operation(
        "Start a build of a Dockerfile (T19)", answers={202: None}, errors=(*COMMON_ERRORS, 409)
    )
    async def post(self, reference: str, build_id: str) -> None:
        await self.service.engine.templates.builder.start_announced(reference, build_id)
        self.answer(status=202)


class BuildStatusHandler(PlatformHandler):
    """``/templates/{id}/builds/{id}/status``."""

    @operation(
        "Get the status of a build (T5)",
        answers={200: BuildInfo},
        errors=(*COMMON_ERRORS, 403),
        query=(
            Parameter("logsOffset", {"type": "integer", "minimum": 0, "default": 0}),
            _PAGE,
            _LEVEL,
        ),
    )
    async def get(self, reference: str, build_id: str) -> None:
        info = await self.service.engine.templates.builder.logs.status(
            reference,
            build_id,
            self.query_int("logsOffset", 0, minimum=0),
            self.query_int("limit", MAX_LOG_PAGE, minimum=0, maximum=MAX_LOG_PAGE),
            cast("Level | None", self.query_choice("level", LEVELS, None)),
        )
        self.answer(info)


class BuildLogsHandler(PlatformHandler):
    """``/templates/{id}/builds/{id}/logs``."""

    @operation(
        "Page through the log of a build (T6)",
        answers={200: BuildLogs},
        errors=(*COMMON_ERRORS, 403),
        query=(
            Parameter("cursor", {"type": "integer", "minimum": 0}, "Unix time in milliseconds."),
            _PAGE,
            Parameter("direction", {"enum": ["forward", "backward"], "default": "forward"}),
            _LEVEL,
            Parameter("source", {"enum": ["temporary", "persistent"]}, "Has no effect."),
        ),
    )
    async def get(self, reference: str, build_id: str) -> None:
        limit = self.query_int("limit", MAX_LOG_PAGE, minimum=0, maximum=MAX_LOG_PAGE)
        cursor = self.query_int("cursor", None, minimum=0)
        level = self.query_choice("level", LEVELS, None) or LEVELS[0]
        backward = self.query_choice("direction", ("forward", "backward"), None) == "backward"
        self.query_choice("source", ("temporary", "persistent"), None)
        logs = self.service.engine.templates.builder.logs
        entries = [
            entry
            for entry in await logs.entries(reference, build_id)
            if LEVELS.index(entry.level) >= LEVELS.index(level)
        ]
        if backward:
            entries.reverse()
        if cursor is not None:
            entries = [
                entry
                for entry in entries
                if (entry.timestamp.timestamp() * 1000 <= cursor) == backward
                or int(entry.timestamp.timestamp() * 1000) == cursor
            ]
        self.answer(BuildLogs(logs=entries[:limit]))


class ImageHandler(ReceivingHandler):
    """``/engine/images/{name}``: an addition to the platform API, for the command line."""

    needs_own_key: ClassVar[bool] = True

    async def admit(self) -> None:
        await super().admit()
        if self.request.method == "PUT":
            uploads = self.service.engine.templates.uploads
            self._upload = await asyncio.to_thread(uploads.begin, secrets.token_hex(32))

    @operation(
        "Import a container image from a tar",
        body="application/octet-stream",
        answers={201: ImportedImage},
        errors=(*COMMON_ERRORS, 403, 409),
    )
    async def put(self, name: str) -> None:
        if self._upload is None:
            raise InvalidArgumentError("the upload has ended")
        path = await asyncio.to_thread(self._upload.finish)
        try:
            row = await self.service.engine.templates.images.take_archive(path, name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                await asyncio.to_thread(path.unlink)
        self.answer(ImportedImage(name=name, digest=row.key), 201)
