"""What the engine says of itself: health, isolation, counters, its own description."""

from __future__ import annotations

import resource
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from sbx_jupyter.engine.lifecycle import State
from sbx_jupyter.engine.listing import SandboxFilter
from sbx_jupyter.service.handlers import PlatformHandler
from sbx_jupyter.service.operations import operation

if TYPE_CHECKING:
    from collections.abc import Iterator


class HealthHandler(PlatformHandler):
    """``/health`` of the engine itself."""

    needs_key: ClassVar[bool] = False

    @operation("Whether the engine serves (H1)", answers={204: None})
    async def get(self) -> None:
        self.answer(status=204)


class EngineInfo(msgspec.Struct, kw_only=True, frozen=True):
    """What clients may want to know of an engine."""

    version: str
    tier: str
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
        }
        info = EngineInfo(
            version=self.service.settings.version,
            tier=engine.tier,
            isolation=engine.report.to_json(),
            limits=limits,
            features=["terminal-replay", *self.service.settings.features],
            domain=self.service.settings.domain,
            sandboxes=_running(self),
        )
        self.answer(info)


class PrometheusHandler(PlatformHandler):
    """``/engine/metrics``."""

    @operation(
        "Counters for Prometheus",
        answers={200: "text/plain; version=0.0.4; charset=utf-8"},
        errors=(401,),
    )
    async def get(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        lines = [
            *self.service.counters.lines(),
            "# TYPE sbx_sandboxes_running gauge",
            f"sbx_sandboxes_running {_running(self)}",
            *_by_state(self),
            "# TYPE sbx_engine_cpu_seconds_total counter",
            f"sbx_engine_cpu_seconds_total {usage.ru_utime + usage.ru_stime:.3f}",
            "# TYPE sbx_engine_max_resident_bytes gauge",
            f"sbx_engine_max_resident_bytes {usage.ru_maxrss * 1024}",
        ]
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish("\n".join(lines) + "\n")


class DescriptionHandler(PlatformHandler):
    """``/openapi.json``."""

    needs_key: ClassVar[bool] = False

    @operation("This description", answers={200: dict[str, Any]})
    async def get(self) -> None:
        from sbx_jupyter.service.openapi import describe

        self.answer(describe(self.service.settings.version))


def _by_state(handler: PlatformHandler) -> Iterator[str]:
    """How many sandboxes are in each state; those that keep their memory are told apart."""
    counts = Counter(
        f"paused_{row.pause_mode}" if row.state is State.PAUSED else row.state.value
        for row in handler.service.engine.rows()
    )
    yield "# TYPE sbx_sandboxes gauge"
    for state in ("running", "paused_full", "paused_filesystem"):
        counts.setdefault(state, 0)
    for state, count in sorted(counts.items()):
        yield f'sbx_sandboxes{{state="{state}"}} {count}'


def _running(handler: PlatformHandler) -> int:
    states: frozenset[Literal["running", "paused"]] = frozenset({"running"})
    return handler.service.engine.list(SandboxFilter(states=states, limit=1)).total_running
