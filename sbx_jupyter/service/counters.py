"""Counts of what the service does, written out for Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class Counters:
    """Requests, streams and bytes since the start of the service; bounded in size."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: Counter[str] = Counter()
        self.open_streams = 0
        self.open_tunnels = 0
        self.received_bytes = 0
        self.sent_bytes = 0

    def count_request(self, surface: str, method: str, status: int, seconds: float) -> None:
        """Note one answered request."""
        verb = method if method in _METHODS else "OTHER"
        self._requests[surface, verb, status] += 1
        self._seconds[surface] += seconds  # type: ignore[assignment]
        for bound in _BUCKETS:
            if seconds <= bound:
                self._buckets[surface, bound] += 1

    def lines(self) -> Iterator[str]:
        """The counters in Prometheus' text format."""
        yield "# TYPE sbx_requests_total counter"
        for (surface, method, status), count in sorted(self._requests.items()):
            labels = f'surface="{surface}",method="{method}",status="{status}"'
            yield f"sbx_requests_total{{{labels}}} {count}"
        yield "# TYPE sbx_request_seconds histogram"
        totals: Counter[str] = Counter()
        for (surface, _, _), count in self._requests.items():
            totals[surface] += count
        for surface, total in sorted(totals.items()):
            for bound in _BUCKETS:
                count = self._buckets[surface, bound]
                yield f'sbx_request_seconds_bucket{{surface="{surface}",le="{bound}"}} {count}'
            yield f'sbx_request_seconds_bucket{{surface="{surface}",le="+Inf"}} {total}'
            yield f'sbx_request_seconds_sum{{surface="{surface}"}} {self._seconds[surface]:.6f}'
            yield f'sbx_request_seconds_count{{surface="{surface}"}} {total}'
        yield from _plain("sbx_open_streams", "gauge", self.open_streams)
        yield from _plain("sbx_open_tunnels", "gauge", self.open_tunnels)
        yield from _plain("sbx_received_bytes_total", "counter", self.received_bytes)
        yield from _plain("sbx_sent_bytes_total", "counter", self.sent_bytes)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _plain(name: str, kind: str, value: float) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


class ConnectionLimits:
    """How many requests each sandbox's ports are serving."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def take(self, sandbox_id: str, limit: int) -> bool:
        """Count one more, unless there are ``limit`` already."""
        if self._open[sandbox_id] >= limit:
            return False
        self._open[sandbox_id] += 1
        return True

    def give_back(self, sandbox_id: str) -> None:
        self._open[sandbox_id] -= 1
        if self._open[sandbox_id] <= 0:
            del self._open[sandbox_id]
