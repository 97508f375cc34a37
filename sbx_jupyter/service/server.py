"""Serves all routes of an engine on one address."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, cast

from tornado.httpserver import HTTPServer

from sbx_jupyter.service.context import RoutedRequest, SbxApplication, Service, ServiceSettings
from sbx_jupyter.service.counters import EngineCollector, EventLoopDelay
from sbx_jupyter.service.gateway.dispatch import Dispatcher
from sbx_jupyter.service.head_timer import HeadTimer
from sbx_jupyter.service.log_format import note_request
from sbx_jupyter.service.owner_keys import OwnerKeys
from sbx_jupyter.service.platform import (
    builds,
    catalogue,
    diffs,
    disk,
    events,
    keys,
    sandbox_changes,
    sandbox_observations,
    sandbox_processes,
    sandboxes,
    secrets,
    snapshots,
    tags,
    telemetry,
    templates,
    volume_content,
    volumes,
)
from sbx_jupyter.service.platform.platform_handler import UnknownRouteHandler
from sbx_jupyter.service.runtime.routes import RUNTIME_ROUTES, UnknownRuntimeRouteHandler
from sbx_jupyter.service.session_keys import SessionKeys

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from tornado.web import RequestHandler

    from sbx_jupyter.engine.engine import Engine
    from sbx_jupyter.service.audit import Audit

_log = logging.getLogger(__name__)

_UNLIMITED: Final = 1 << 62
_CHUNK: Final = 256 * 1024
_HEADER_TIMEOUT: Final = 310.0
_CLOSE_SECONDS: Final = 5.0
_SEGMENT: Final = "([^/]+)"

PLATFORM_ROUTES: Final[tuple[tuple[str, type[RequestHandler]], ...]] = (
    ("/v2/sandboxes", sandboxes.SandboxesV2Handler),
    ("/sandboxes", sandboxes.SandboxesV1Handler),
    ("/sandboxes/metrics", sandbox_observations.AllMetricsHandler),
    (f"/sandboxes/{_SEGMENT}", sandboxes.SandboxHandler),
    (f"/v2/sandboxes/{_SEGMENT}/connect", sandboxes.ConnectV2Handler),
    (f"/sandboxes/{_SEGMENT}/connect", sandboxes.ConnectV1Handler),
    (f"/sandboxes/{_SEGMENT}/resume", sandboxes.ResumeHandler),
    (f"/sandboxes/{_SEGMENT}/pause", sandbox_changes.PauseHandler),
    (f"/sandboxes/{_SEGMENT}/fork", sandbox_changes.ForkHandler),
    (f"/sandboxes/{_SEGMENT}/snapshots", snapshots.SandboxSnapshotsHandler),
    ("/snapshots", snapshots.SnapshotsHandler),
    ("/v3/templates", builds.BuildRequestHandler),
    (f"/templates/{_SEGMENT}/files/{_SEGMENT}", builds.UploadLinkHandler),
    (f"/template-uploads/{_SEGMENT}", builds.UploadHandler),
    (f"/v2/templates/{_SEGMENT}/builds/{_SEGMENT}", builds.BuildStartHandler),
    (f"/templates/{_SEGMENT}/builds/{_SEGMENT}", builds.DockerfileStartHandler),
    (f"/templates/{_SEGMENT}/builds/{_SEGMENT}/status", builds.BuildStatusHandler),
    (f"/templates/{_SEGMENT}/builds/{_SEGMENT}/logs", builds.BuildLogsHandler),
    (f"/templates/aliases/{_SEGMENT}", templates.AliasHandler),
    ("/templates/tags", tags.TagsHandler),
    (f"/templates/{_SEGMENT}/tags", tags.TemplateTagsHandler),
    (f"/templates/{_SEGMENT}/tags/count", tags.TagCountHandler),
    (f"/templates/{_SEGMENT}/tags/exists", tags.TagExistsHandler),
    (f"/templates/{_SEGMENT}/tags/groups", tags.TagGroupsHandler),
    (f"/templates/{_SEGMENT}/tags/{_SEGMENT}/assignments", tags.TagAssignmentsHandler),
    ("/templates", templates.TemplatesHandler),
    ("/v2/templates", templates.TemplatesV2Handler),
    ("/default-templates", templates.DefaultTemplatesHandler),
    (f"/v2/templates/{_SEGMENT}", templates.TemplateV2Handler),
    (f"/templates/{_SEGMENT}", templates.TemplateHandler),
    (f"/engine/images/{_SEGMENT}", builds.ImageHandler),
    (f"/sandboxes/{_SEGMENT}/timeout", sandbox_changes.TimeoutHandler),
    (f"/sandboxes/{_SEGMENT}/refreshes", sandbox_changes.RefreshHandler),
    (f"/sandboxes/{_SEGMENT}/network", sandbox_changes.NetworkHandler),
    (f"/sandboxes/{_SEGMENT}/metrics", sandbox_observations.MetricsHandler),
    (f"/sandboxes/{_SEGMENT}/logs", sandbox_observations.LogsHandler),
    (f"/v2/sandboxes/{_SEGMENT}/logs", sandbox_observations.LogsV2Handler),
    ("/volumes", volumes.VolumesHandler),
    (f"/volumes/{_SEGMENT}", volumes.VolumeHandler),
    (f"/volumecontent/{_SEGMENT}/path", volume_content.VolumePathHandler),
    (f"/volumecontent/{_SEGMENT}/dir", volume_content.VolumeDirHandler),
    (f"/volumecontent/{_SEGMENT}/file", volume_content.VolumeFileHandler),
    ("/secrets", secrets.SecretsHandler),
    (f"/secrets/{_SEGMENT}", secrets.SecretHandler),
    ("/health", telemetry.HealthHandler),
    (f"/engine/sandboxes/{_SEGMENT}", sandbox_changes.MetadataHandler),
    (f"/engine/sandboxes/{_SEGMENT}/diff", diffs.DiffHandler),
    (f"/engine/sandboxes/{_SEGMENT}/diff/before", diffs.EarlierFileHandler),
    (f"/engine/sandboxes/{_SEGMENT}/diff\\.tar", diffs.DiffArchiveHandler),
    (f"/engine/sandboxes/{_SEGMENT}/operations", disk.OperationsHandler),
    (f"/engine/sandboxes/{_SEGMENT}/operations/{_SEGMENT}", disk.OperationHandler),
    (f"/engine/sandboxes/{_SEGMENT}/processes", sandbox_processes.ProcessesHandler),
    (f"/engine/sandboxes/{_SEGMENT}/ports", sandbox_processes.PortsHandler),
    ("/engine/templates", catalogue.TemplateDetailsHandler),
    (f"/engine/templates/{_SEGMENT}", catalogue.TemplateNameHandler),
    (f"/engine/templates/{_SEGMENT}/builds/{_SEGMENT}", catalogue.BuildCancelHandler),
    ("/engine/volumes", catalogue.VolumeDetailsHandler),
    ("/engine/events", events.EventsHandler),
    ("/engine/keys", keys.KeysHandler),
    (f"/engine/keys/{_SEGMENT}", keys.KeyHandler),
    ("/engine/disk", disk.DiskHandler),
    ("/engine/prune", disk.PruneHandler),
    ("/engine/info", telemetry.InfoHandler),
    ("/engine/metrics", telemetry.PrometheusHandler),
    ("/openapi.json", telemetry.DescriptionHandler),
)


class Server:
    """The HTTP server of one engine."""

    def __init__(
        self,
        engine: Engine,
        api_key: str,
        settings: ServiceSettings,
        audit: Audit | None = None,
    ) -> None:
        self.version = settings.version
        session_keys = SessionKeys(engine.config.data_dir)
        session_keys.sweep()
        owner_keys = OwnerKeys(engine.config.data_dir)
        owner_keys.load()
        self.service = Service(
            engine=engine,
            api_key=api_key,
            session_keys=session_keys,
            owner_keys=owner_keys,
            audit=audit,
            settings=settings,
        )
        if audit is not None:
            engine.hooks.egress.append(audit.egress)
        registry = self.service.counters.registry
        self._loop_delay = EventLoopDelay(registry)
        registry.register(EngineCollector(engine, self._loop_delay))
        platform = self._application(PLATFORM_ROUTES, UnknownRouteHandler)
        runtime = self._application(RUNTIME_ROUTES, UnknownRuntimeRouteHandler)
        self._head_timer = HeadTimer(_HEADER_TIMEOUT)
        self._dispatcher = Dispatcher(self.service, platform, runtime, self._head_timer)
        self._http = _CountingServer(self._dispatcher, max_body_size=_UNLIMITED, chunk_size=_CHUNK)
        self._http.conn_params.header_timeout = None  # the head timer does that

    def _application(self, routes: Sequence[Any], unknown: type[RequestHandler]) -> SbxApplication:
        return SbxApplication(
            routes, self.service, default_handler_class=unknown, log_function=_log_request
        )

    @property
    def open_connections(self) -> int:
        """How many connections of clients are open, with a request in progress or without.

        Those that only follow changes are not counted.
        """
        return self._http.open_connections - self.service.changes.open

    @property
    def requests(self) -> int:
        """How many requests have arrived since the start."""
        return self._dispatcher.requests

    def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections; needs a running event loop."""
        self._http.add_sockets(sockets)
        self._loop_delay.start()

    async def stop(self) -> None:
        """Accept no new connections and close the open ones."""
        self._http.stop()
        self._head_timer.stop()
        self._loop_delay.stop()
        self.service.changes.close()
        await self.service.tasks.aclose()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._http.close_all_connections()
        except TimeoutError:
            _log.warning("some connections did not close in %s seconds", _CLOSE_SECONDS)


class _CountingServer(HTTPServer):
    """tornado's server, which keeps its open connections and their ends to itself."""

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        cast("Dispatcher", self.request_callback).on_close(server_conn)


def _log_request(handler: Any) -> None:
    request: RoutedRequest = handler.request
    started = time.monotonic() - request.request_time()
    note_request(handler.service, request, handler.surface, handler.get_status(), started)
    if handler.surface == "platform" and handler.service.audit is not None:
        handler.service.audit.platform_call(request, handler.get_status())
