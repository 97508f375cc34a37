"""Metrics of the service for Prometheus."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections import deque
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from sbx_jupyter.engine.engine import Engine


_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REFUSED: Final = (401, 403)
_ROUTES: Final = ("platform", "runtime", "rpc", "stream", "port", "gateway")


class Counters(Collector):
    """Requests, streams and bytes since the start of the service; bounded in size.

    The attributes that are plain numbers are updated where every microsecond counts, and read only
    when Prometheus collects them.
    """

    def __init__(self) -> None:
        self.open_streams = 0
        self.open_tunnels = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(namespace="sbx_engine", registry=self.registry)
        self._requests = Counter(
            "sbx_requests",
            "Answered requests, by who answers them.",
            ["surface", "method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "sbx_request_seconds",
            "From the head of a request to the end of its answer.",
            ["surface"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._auth_failures = Counter(
            "sbx_auth_failures",
            "Requests that were refused for want of a right key, token or signature.",
            ["surface"],
            registry=self.registry,
        )
        self._answered: dict[tuple[str, str, int], Counter] = {}
        self._timed = {name: self._seconds.labels(name) for name in _ROUTES}
        for name in _ROUTES:
            self._auth_failures.labels(name)

    def count_request(self, surface: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request, which took ``seconds``."""
        key = (surface, method if method in _METHODS else "OTHER", status)
        counter = self._answered.get(key)
        if counter is None:
            counter = self._answered[key] = self._requests.labels(*key)
        counter.inc()
        self._timed[surface].observe(seconds)
        if status in _REFUSED:
            self._auth_failures.labels(surface).inc()

    def collect(self) -> Iterator[Metric]:
        """The metrics that are plain numbers."""
        yield _gauge("sbx_open_streams", "Server streams that are open.", self.open_streams)
        yield _gauge("sbx_open_tunnels", "Connections to ports of sandboxes.", self.open_tunnels)
        yield CounterMetricFamily(
            "sbx_received_bytes", "Bytes of bodies that clients sent.", self.received_bytes
        )
        yield CounterMetricFamily(
            "sbx_sent_bytes", "Bytes of streams and files that clients got.", self.sent_bytes
        )


class EngineCollector(Collector):
    """Gauges of an engine, read at each collection."""

    def __init__(self, engine: Engine, loop_delay: EventLoopDelay) -> None:
        self._engine = engine
        self._loop_delay = loop_delay

    def collect(self) -> Iterator[Metric]:
        found = self._engine.observations.gauges()
        states = GaugeMetricFamily("sbx_sandboxes", "Sandboxes by state.", labels=["state"])
        for state, count in sorted(found.sandboxes.items()):
            states.add_metric([state], count)
        yield states
        running = found.sandboxes["running"]
        yield _gauge("sbx_sandboxes_running", "Sandboxes that run.", running)
        yield _gauge("sbx_pool_ready", "Sandboxes that wait to be given out.", found.ready)
        size = self._engine.config.pool_size
        yield _gauge("sbx_pool_size", "How many the pool is to hold.", size)
        yield _gauge(
            "sbx_processes", "Processes that clients started and that run.", found.processes
        )
        yield _gauge("sbx_watchers", "Watches of directories.", found.watchers)
        yield _gauge(
            "sbx_event_loop_lag_seconds",
            "The longest that the event loop was late within the last 15 seconds.",
            self._loop_delay.worst,
        )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value)


class ConnectionLimits:
    """Counts the requests that each sandbox's ports are serving."""

    def __init__(self) -> None:
        self._open: Tally[str] = Tally()

    def acquire(self, sandbox_id: str, limit: int) -> bool:
        """Count one more request; ``False`` if the sandbox has ``limit`` already."""
        if self._open[sandbox_id] >= limit:
            return False
        self._open[sandbox_id] += 1
        return True

    def release(self, sandbox_id: str) -> None:
        """Count a request as ended."""
        self._open[sandbox_id] -= 1
        if self._open[sandbox_id] <= 0:
            del self._open[sandbox_id]


_INTERVAL: Final = 1.0
_KEPT: Final = 15
_DELAY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class EventLoopDelay:
    """Measures once a second how late the event loop runs a scheduled call."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: deque[float] = deque(maxlen=_KEPT)
        self._lateness = Histogram(
            "sbx_event_loop_lateness_seconds",
            "How much later than asked for the event loop came to a call.",
            buckets=_DELAY_BUCKETS,
            registry=registry,
        )
        self._timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """The longest delay of the last 15 calls, in seconds."""
        return max(self._seen, default=0.0)

    def start(self) -> None:
        """Start to measure; needs a running event loop."""
        self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        lateness = max(0.0, loop.time() - due)
        self._seen.append(lateness)
        self._lateness.observe(lateness)
        self._schedule(loop)
