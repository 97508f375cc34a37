"""Routes about the engine itself: health, isolation and limits, metrics, API description."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from prometheus_client import generate_latest

from sbx_jupyter.engine.sandboxes.listing import SandboxFilter
from sbx_jupyter.protocol.access import PORT_TUNNELS
from sbx_jupyter.service.context import SbxApplication
from sbx_jupyter.service.platform.openapi import describe
from sbx_jupyter.service.platform.operation_spec import operation
from sbx_jupyter.service.platform.platform_handler import PlatformHandler


class HealthHandler(PlatformHandler):
    """``/health`` of the engine itself."""

    needs_key: ClassVar[bool] = False

    @operation("Check that the engine answers (H1)", answers={204: None})
    async def get(self) -> None:
        self.answer(status=204)


class EngineInfo(msgspec.Struct, kw_only=True, frozen=True):
    """The answer of ``GET /engine/info``."""

    version: str
    tier: str
    network: str
    isolation: dict[str, Any]
    limits: dict[str, int]
    features: list[str]
    domain: str | None
    sandboxes: int


class InfoHandler(PlatformHandler):
    """``/engine/info``."""

    @operation("Describe the engine", answers={200: EngineInfo}, errors=(401,))
    async def get(self) -> None:
        engine = self.service.engine
        config = engine.config
        limits: dict[str, int] = {
            "maxSandboxes": config.max_sandboxes,
            "maxTimeout": config.max_timeout,
            "memoryMB": config.default_limits.memory_mb,
            "cpuCount": config.default_limits.cpu_count,
            "diskSizeMB": config.default_limits.disk_mb,
            "processes": config.default_limits.processes,
            "volumeSizeMB": config.volume_size_mb,
        }
        info = EngineInfo(
            version=self.service.settings.version,
            tier=engine.tier,
            network=engine.network,
            isolation={**engine.report.to_json(), "served_by": engine.served_by},
            limits=limits,
            features=["terminal-replay", PORT_TUNNELS, *self.service.settings.features],
            domain=self.service.settings.domain,
            sandboxes=_running(self),
        )
        self.answer(info)


class PrometheusHandler(PlatformHandler):
    """``/engine/metrics``."""

    needs_own_key: ClassVar[bool] = True

    @operation(
        "Get the metrics for Prometheus",
        answers={200: "text/plain; version=0.0.4; charset=utf-8"},
        errors=(401, 403),
    )
    async def get(self) -> None:
        registries = (self.service.engine.meters.registry, self.service.counters.registry)
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(b"".join(map(generate_latest, registries)))


class DescriptionHandler(PlatformHandler):
    """``/openapi.json``."""

    needs_key: ClassVar[bool] = False

    @operation("Get this description", answers={200: dict[str, Any]})
    async def get(self) -> None:
        assert isinstance(self.application, SbxApplication)
        self.answer(describe(self.service.settings.version, self.application.routes))


def _running(handler: PlatformHandler) -> int:
    states: frozenset[Literal["running", "paused"]] = frozenset({"running"})
    return handler.service.engine.sandboxes.list(
        SandboxFilter(states=states, limit=1)
    ).total_running
