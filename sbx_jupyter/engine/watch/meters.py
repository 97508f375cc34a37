"""Counters and timers of the engine's operations, for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner", bound="_Owner")

# Nobody needs the second series of each counter, with its creation time.
prometheus_client.disable_created_metrics()

OPERATIONS: Final = ("create", "resume", "pause", "kill", "snapshot", "fork", "build")
_LONG: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800)
_SHORT: Final = (0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)


class Meters:
    """The counters and histograms of one engine, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "sbx_operation_seconds",
            "How long what was asked for took, where it succeeded.",
            ["operation"],
            buckets=_LONG,
            registry=self.registry,
        )
        self._failures = self._counter(
            "sbx_operation_failures",
            "What was asked for and failed, by the code of the error.",
            "operation",
            "reason",
        )
        self.commit_seconds = Histogram(
            "sbx_store_commit_seconds",
            "From asking for a change of the store to its being on the disk.",
            buckets=_SHORT,
            registry=self.registry,
        )
        self.oom_kills = self._counter(
            "sbx_oom_kills",
            "Processes that the kernel killed for the memory limit of their sandbox.",
        )
        self._watchdog_kills = self._counter(
            "sbx_watchdog_kills",
            "Times that the engine killed processes which went over a limit.",
            "limit",
        )
        self._egress = self._counter(
            "sbx_egress_connections",
            "Connections out of sandboxes, by what became of them.",
            "decision",
        )
        self._ended = self._counter(
            "sbx_sandboxes_ended", "Sandboxes that ended, by why.", "reason"
        )
        self._limits = Gauge(
            "sbx_limit",
            "1 for what each limit of sandboxes is worth here: limited, watched or not limited.",
            ["resource", "word", "holder"],
            registry=self.registry,
        )
        self._create_series()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _create_series(self) -> None:
        """Create all series with 0: a rate needs a first value."""
        for operation in OPERATIONS:
            self._seconds.labels(operation)
        for limit in ("disk", "memory"):
            self._watchdog_kills.labels(limit)
        for decision in ("allowed", "refused"):
            self._egress.labels(decision)
        for reason in ("killed", "timeout", "lost", "stopped"):
            self._ended.labels(reason)

    @contextlib.contextmanager
    def operation(self, name: str) -> Generator[None]:
        """Time the block as one operation, or count its failure."""
        started = time.perf_counter()
        try:
            yield
        except BaseException as error:
            self.operation_failed(name, _reason(error))
            raise
        self._seconds.labels(name).observe(time.perf_counter() - started)

    def operation_took(self, name: str, seconds: float) -> None:
        """Note an operation that succeeded."""
        self._seconds.labels(name).observe(seconds)

    def operation_failed(self, name: str, reason: str) -> None:
        """Note an operation that failed."""
        self._failures.labels(name, reason).inc()

    def killed_by_watchdog(self, limit: str) -> None:
        """Note that processes were killed for the limit ``disk`` or ``memory``."""
        self._watchdog_kills.labels(limit).inc()

    def egress(self, decision: str) -> None:
        """Note a connection to the outside that was ``allowed`` or ``refused``."""
        self._egress.labels(decision).inc()

    def tell_limits(self, holders: dict[str, str], words: dict[str, str]) -> None:
        """Note what holds sandboxes to each resource, and the word for it."""
        for resource, holder in holders.items():
            self._limits.labels(resource, words[resource], holder).set(1)

    def sandbox_ended(self, reason: str) -> None:
        """Note the end of a sandbox."""
        self._ended.labels(reason).inc()


class _HasMeters(Protocol):
    @property
    def meters(self) -> Meters: ...


class _Owner(Protocol):
    @property
    def _context(self) -> _HasMeters: ...


def metered(
    name: str,
) -> Callable[
    [Callable[Concatenate[Owner, P], Awaitable[R]]],
    Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]],
]:
    """Time a method of a class that has the context as one operation, or count its failures."""

    def wrap(
        method: Callable[Concatenate[Owner, P], Awaitable[R]],
    ) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]]:
        @functools.wraps(method)
        async def timed(self: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
            # The decorator runs inside the class that it decorates.
            with self._context.meters.operation(name):  # pyright: ignore[reportPrivateUsage]
                return await method(self, *args, **kwargs)

        return timed

    return wrap


def _reason(error: BaseException) -> str:
    if isinstance(error, SbxError):
        return error.code
    return "canceled" if isinstance(error, asyncio.CancelledError) else "internal"
