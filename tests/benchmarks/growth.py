"""Curves: what one more costs as the number of sandboxes, streams, bytes or files grows."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks import plots, report
from tests.benchmarks.groups import density, files, snapshots, streams
from tests.benchmarks.harness import first_output, run_script, running_engine, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.benchmarks.harness import EngineClient

_CREATES: Final = 15
_PAUSE: Final = 0.1
_STREAM_BYTES: Final = 8_000_000
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Curve:
    """What is measured at each size, as the cost of one unit."""

    name: str
    unit: str
    """Of the cost, as shown."""
    factor: float
    """From seconds or bytes to ``unit``."""
    sizes: tuple[int, ...]
    open: Callable[[EngineClient], contextlib.AbstractContextManager[Callable[[int], float]]]
    """Gives what measures a size once: seconds or bytes of one unit."""
    knee: str
    """Where the curve bends and why: a sentence of the report."""
    in_order: bool = False
    """Whether each size builds on the one before and is measured once."""
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one unit at each size, one value per round."""

    curve: Curve
    values: dict[int, list[float]]

    def to_json(self) -> dict[str, Any]:
        medians = {size: statistics.median(taken) for size, taken in self.values.items()}
        return {
            "name": self.curve.name,
            "unit": self.curve.unit,
            "rounds": len(next(iter(self.values.values()))),
            "medians": medians,
            "values": self.values,
        }

    def shown(self) -> list[tuple[int, float]]:
        """Each size and the median of its costs, in the unit of the curve."""
        medians = {size: statistics.median(taken) for size, taken in self.values.items()}
        return [(size, median * self.curve.factor) for size, median in medians.items()]

    def lines(self) -> list[str]:
        """A table of one row, and what it says."""
        shown = [f"{cost:,.2f}" for _, cost in self.shown()]
        sizes = [f"{size:,}" for size in self.values]
        return [
            f"| {self.curve.name} | {' | '.join(sizes)} |",
            f"|---{'|---' * len(sizes)}|",
            f"| {self.curve.unit} | {' | '.join(shown)} |",
            "",
            self.curve.knee,
            "",
        ]


def run(page: Path, figures: Path) -> None:
    """Measure all curves, on one engine; write their section of the page and their figures."""
    loads = [os.getloadavg()[0]]
    found: list[Costs] = []
    with running_engine() as engine:
        for curve in CURVES:
            found.append(measure(curve, engine))
            loads.append(os.getloadavg()[0])
            print("\n".join(found[-1].lines()), flush=True)
    machine = report.describe_machine(loads)
    written = report.Written()
    written.found["growth"] = {"machine": machine, "curves": [costs.to_json() for costs in found]}
    lines = [report.where(machine), "The cost of one unit as their number grows:", ""]
    for costs in found:
        picture = plots.curve(costs.curve.name, costs.curve.unit, costs.shown())
        link = written.add_picture(f"growth {costs.curve.name}", costs.curve.name, picture)
        lines += [*costs.lines(), link, ""]
    written.sections[report.GROWTH] = "\n".join(lines)
    report.write(written, page, figures)


def measure(curve: Curve, engine: EngineClient) -> Costs:
    """Measure each size of a curve; in shuffled order, unless one builds on the other."""
    values: dict[int, list[float]] = {size: [] for size in curve.sizes}
    with curve.open(engine) as cost:
        for _ in range(1 if curve.in_order else curve.rounds):
            sizes: Sequence[int] = curve.sizes
            if not curve.in_order:
                sizes = random.sample(curve.sizes, len(curve.sizes))
            for size in sizes:
                values[size].append(cost(size))
    return Costs(curve, values)


@contextlib.contextmanager
def _creates(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """The median of some creates to first output, beside ``size`` other sandboxes."""
    with _crowd(engine) as grow:

        def create() -> float:
            time.sleep(_PAUSE)
            made: list[dict[str, Any]] = []

            def work() -> None:
                made.append(engine.create())
                first_output(engine, made[0])

            taken = timed(work)
            engine.kill(made[0])
            return taken

        def cost(size: int) -> float:
            grow(size)
            return statistics.median(create() for _ in range(_CREATES))

        yield cost


@contextlib.contextmanager
def _memory(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """The memory that one of ``size`` idle sandboxes adds."""
    with _crowd(engine) as grow:
        before = density.memory_of(engine)

        def cost(size: int) -> float:
            grow(size)
            return (density.memory_of(engine) - before) / size

        yield cost


@contextlib.contextmanager
def _crowd(engine: EngineClient) -> Iterator[Callable[[int], None]]:
    """Makes idle sandboxes until there are as many as asked for."""
    made: list[dict[str, Any]] = []
    with ThreadPoolExecutor(density.AT_ONCE) as threads:

        def use(_: int) -> dict[str, Any]:
            sandbox = engine.create()
            first_output(engine, sandbox)
            return sandbox

        def grow(size: int) -> None:
            made.extend(threads.map(use, range(size - len(made))))
            time.sleep(1)

        try:
            yield grow
        finally:
            list(threads.map(engine.kill, made))


@contextlib.contextmanager
def _streams(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """Streams of 8 MB at once in one sandbox: the seconds for each."""
    with engine.sandbox() as sandbox, ThreadPoolExecutor(100) as threads:

        def read(_: int) -> None:
            streams.read_output(engine, sandbox, _STREAM_BYTES, is_binary=False)

        yield lambda size: timed(lambda: list(threads.map(read, range(size)))) / size


@contextlib.contextmanager
def _uploads(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    with engine.sandbox() as sandbox:

        def cost(size: int) -> float:
            return timed(lambda: files.upload_file(engine, sandbox, size * _MEGABYTE)) / size

        yield cost


@contextlib.contextmanager
def _downloads(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    with engine.sandbox() as sandbox:

        def cost(size: int) -> float:
            files.upload_file(engine, sandbox, size * _MEGABYTE)
            return timed(lambda: files.download_file(engine, sandbox, size * _MEGABYTE)) / size

        yield cost


@contextlib.contextmanager
def _snapshots(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """A snapshot of a sandbox with one file of ``size`` MB."""
    with engine.sandbox() as sandbox:

        def cost(size: int) -> float:
            files.upload_file(engine, sandbox, size * _MEGABYTE)
            return _snapshot(engine, sandbox) / size

        yield cost


@contextlib.contextmanager
def _snapshots_of_many(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """A snapshot of a sandbox with ``size`` empty files."""
    with engine.sandbox() as sandbox:

        def cost(size: int) -> float:
            run_script(engine, sandbox, "rm -rf many")
            files.make_files(engine, sandbox, size)
            return _snapshot(engine, sandbox) / size

        yield cost


def _snapshot(engine: EngineClient, sandbox: dict[str, Any]) -> float:
    taken, made = snapshots.take_snapshot(engine, sandbox)
    snapshots.remove_snapshot(engine, made)
    return taken


@contextlib.contextmanager
def _listings(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """The median of some listings; the first one of a size is the slowest, and does not count."""
    with _listed(engine) as (sandbox, make):

        def cost(size: int) -> float:
            make(size)
            taken = [
                timed(lambda: files.list_files(engine, sandbox, size)) for _ in range(_LISTINGS + 1)
            ]
            return statistics.median(taken[1:]) / size

        yield cost


@contextlib.contextmanager
def _listing_memory(engine: EngineClient) -> Iterator[Callable[[int], float]]:
    """The most memory that the engine and its processes have more during a listing."""
    with _listed(engine) as (sandbox, make):

        def cost(size: int) -> float:
            make(size)
            before = density.memory_of(engine)
            with ThreadPoolExecutor(1) as threads:
                listing = threads.submit(files.list_files, engine, sandbox, size)
                most = before
                while not listing.done():
                    most = max(most, density.memory_of(engine))
                listing.result()
            return most - before

        yield cost


@contextlib.contextmanager
def _listed(
    engine: EngineClient,
) -> Iterator[tuple[dict[str, Any], Callable[[int], None]]]:
    """A sandbox, and what makes its directory hold a number of empty files."""
    with engine.sandbox() as sandbox:

        def make(size: int) -> None:
            run_script(engine, sandbox, "rm -rf many")
            files.make_files(engine, sandbox, size)

        yield sandbox, make


_SANDBOXES: Final = (1, 10, 50, 100, 200)
_SIZES: Final = (1, 10, 100, 1000)
_COUNTS: Final = (100, 1_000, 10_000, 100_000)
_LISTED: Final = (*_COUNTS, 200_000)
"""Up to as many as a listing may have."""
_LISTINGS: Final = 3

CURVES: Final = (
    Curve(
        "Idle sandboxes",
        "MB for each",
        1e-6,
        _SANDBOXES,
        _memory,
        "The pages of the agent that it writes to; the first shows what the engine loads then.",
        in_order=True,
    ),
    Curve(
        "Sandboxes that run beside",
        "ms to create one more, to first output",
        1e3,
        _SANDBOXES,
        _creates,
        "Flat: a create looks at nothing that belongs to other sandboxes.",
        in_order=True,
    ),
    Curve(
        "Streams of 8 MB at once",
        "ms for each",
        1e3,
        (1, 10, 50, 100),
        _streams,
        "One alone waits for its program to start; beside others, the engine works meanwhile. One"
        " process serves all, so that their time adds up.",
    ),
    Curve(
        "MB of an upload",
        "ms for each",
        1e3,
        _SIZES,
        _uploads,
        "Below 10 MB, the request and the nameless file that the content is collected in.",
    ),
    Curve("MB of a download", "ms for each", 1e3, _SIZES, _downloads, "Below 10 MB, the request."),
    Curve(
        "MB in a snapshot, one file",
        "ms for each",
        1e3,
        _SIZES,
        _snapshots,
        "Below 100 MB, the pause of the sandbox and the record; above, the disk.",
    ),
    Curve(
        "Files in a snapshot, empty",
        "µs for each",
        1e6,
        _COUNTS,
        _snapshots_of_many,
        "Below 1,000 files, the pause of the sandbox and the record.",
        rounds=1,
    ),
    Curve(
        "Files in a listing",
        "µs for each",
        1e6,
        _LISTED,
        _listings,
        "Below 1,000 files, the request; above, linear. A listing of more than 200,000 entries is"
        " refused (`resource_exhausted`).",
        rounds=1,
    ),
    Curve(
        "Files in a listing, memory",
        "MB more at the peak, of the engine and all processes of the sandbox",
        1e-6,
        _LISTED,
        _listing_memory,
        "Not flat: the agent and the engine have all entries of a listing in their memory until the"
        " answer is sent, which is why there is a limit.",
        rounds=1,
    ),
)
