"""Three engines on one machine with ten sandboxes each, and what their users do all the time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.isolation.kernel.hierarchies import find_hierarchies
from tests.engine_process import CHECKOUT, engine_process
from tests.siege import hostile
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.engine_process import EngineProcess

SANDBOXES = 10
PROCESSES = 128
UID = 1477
PAUSE = 0.1
"""Seconds between two operations on the neighbours of one engine."""
SLOW = 0.4
"""Seconds after which it is looked at what an operation waits for."""
_RARE = 5.0
"""Seconds between two of the slower operations: a new sandbox, a list."""
_LIMITS = {
    "default_memory_mb": 256, "default_cpu_count": 1, "default_processes": PROCESSES,
    "default_disk_mb": 64, "default_open_files": 1024, "metrics_interval": 1.0, "pool_size": 1,
}  # fmt: skip
_FORK = """
import os, signal
made = []
try:
    while len(made) < 2000:
        pid = os.fork()
        if pid == 0: signal.pause()
        made.append(pid)
except OSError: pass
for pid in made: os.kill(pid, signal.SIGKILL)
print(len(made))
"""


@dataclass
class Figures:
    """How long operations took, in seconds, and those that failed."""

    echo: list[float] = field(default_factory=list[float])
    all: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failed: list[str] = field(default_factory=list[str])

    def p99(self) -> float:
        """The time of ``echo`` that one in a hundred takes longer than."""
        return statistics.quantiles(self.echo, n=100, method="inclusive")[-1]

    def slowest(self) -> tuple[float, str]:
        """The longest operation and its name."""
        return max((max(times), name) for name, times in self.all.items() if times)

    def to_json(self) -> dict[str, Any]:
        slowest, name = self.slowest()
        return {
            "echo_n": len(self.echo),
            "echo_median_ms": round(statistics.median(self.echo) * 1000, 1),
            "echo_p99_ms": round(self.p99() * 1000, 1),
            "slowest_s": round(slowest, 2),
            "slowest": name,
            "over_2_s": {
                name: sum(t > 2 for t in times)
                for name, times in self.all.items()
                if any(t > 2 for t in times)
            },
            "failed": self.failed[:5],
        }


class Waits:
    """What processes waited for while operations were slow; see ``tests.siege.waits``."""

    def __init__(self, attackers: list[int]) -> None:
        descriptor, name = tempfile.mkstemp(prefix="sbx-siege-waits-")
        os.close(descriptor)
        self._output = Path(name)
        command = [sys.executable, "-m", "tests.siege.waits", name]
        self._process = subprocess.Popen(
            [*command, *map(str, attackers)], stdin=subprocess.PIPE, cwd=CHECKOUT
        )
        self._numbers = itertools.count()

    @staticmethod
    @contextlib.contextmanager
    def watch(waits: Waits | None, engine: int, name: str) -> Iterator[None]:
        """Look on from the moment when the operation ``name`` of an engine takes too long."""
        if waits is None:
            yield
            return
        told = f"{engine} {name} {next(waits._numbers)}"
        timer = asyncio.get_running_loop().call_later(SLOW, waits._say, f"+{told}")
        began = time.monotonic()
        try:
            yield
        finally:
            timer.cancel()
            if time.monotonic() > began + SLOW:
                waits._say(f"-{told}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def close(self) -> str:
        """Stop looking; what was seen."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        told = self._output.read_text()
        self._output.unlink()
        return told


class Besieged:
    """One engine, its nine neighbours and its hostile sandbox."""

    def __init__(self, name: str, tier: str, process: EngineProcess) -> None:
        self.name = name
        self.tier = tier
        self.process = process
        self.neighbours: list[AsyncSandbox] = []
        self.words: dict[str, str] = {}
        self.limits: dict[str, str] = {}
        self.waits: Waits | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Make the sandboxes, each neighbour with a file of its own."""
        config = ConnectionConfig(api_url=self.process.url, api_key=self.process.key)
        async with PlatformClient(config) as self.platform:
            made = [await self._create() for _ in range(SANDBOXES)]
            self.attacker, *self.neighbours = made
            described = await self.attacker.isolation()
            assert described is not None
            self.words, self.limits = described["limit_words"], described["limits"]
            for number, box in enumerate(self.neighbours):
                await box.files.write("kept", f"{self.name} {number}")
            try:
                yield
            finally:
                for box in made:
                    with contextlib.suppress(Exception):
                        await box.kill()

    async def _create(self) -> AsyncSandbox:
        return await AsyncSandbox.create(platform=self.platform, timeout=900)

    @property
    def attacker_pid(self) -> int:
        """The first process of the hostile sandbox."""
        record = self.process.data_dir / "cages" / self.attacker.sandbox_id
        return json.loads(record.read_text())["pid"]

    async def count_forks(self) -> int:
        """How many processes the hostile sandbox gets: its ceiling, before anything is tried."""
        await self.attacker.files.write("fork.py", _FORK)
        done = await self.attacker.commands.run("python3 fork.py", timeout=40)
        return int(done.stdout.split()[0])

    async def attack(self, seconds: float) -> None:
        """Run everything in the hostile sandbox, as both of its users, and again when it ends."""
        for name, content in hostile.files(self.tier).items():
            await self.attacker.files.write(f"/home/user/{name}", content, user="root")
        end = time.monotonic() + seconds

        async def as_user(user: str) -> None:
            while (left := end - time.monotonic()) > 0:
                command = f"exec python3 /home/user/driver.py /home/user/programs.json {left:.0f}"
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(left + 1):
                        await self.attacker.commands.run(command, user=user, timeout=left)
                await asyncio.sleep(0.5)

        async with asyncio.TaskGroup() as group:
            for user in ("user", "root"):
                group.create_task(as_user(user))
            # Output that nobody reads.
            for _ in range(2):
                with contextlib.suppress(Exception):
                    await self.attacker.commands.start("yes", timeout=seconds)

    async def use(self, seconds: float) -> Figures:
        """Work in the neighbours and with the engine for so long."""
        figures = Figures()
        end = time.monotonic() + seconds
        # Each loop stops by itself; none waits for the others.
        await asyncio.gather(self._work(figures, end), self._ask_engine(figures, end))
        return figures

    async def _work(self, figures: Figures, end: float) -> None:
        chosen = random.Random(1)
        while time.monotonic() < end:
            number = chosen.randrange(len(self.neighbours))
            box = self.neighbours[number]
            took = await self._timed(figures, "echo", lambda box=box: _echo(box))
            if took is not None:
                figures.echo.append(took)
            await self._timed(
                figures, "read", lambda box=box, n=number: _read(box, f"{self.name} {n}")
            )
            await self._timed(figures, "write", lambda box=box: box.files.write("new", b"x" * 4096))
            await asyncio.sleep(PAUSE)

    async def _ask_engine(self, figures: Figures, end: float) -> None:
        while time.monotonic() < end:
            await self._timed(figures, "list", self.platform.engine_info)
            await self._timed(figures, "create and kill", self._come_and_go)
            await asyncio.sleep(_RARE)

    async def _come_and_go(self) -> None:
        async with await self._create() as box:
            await _echo(box)

    async def _timed(
        self, figures: Figures, name: str, work: Callable[[], Awaitable[object]]
    ) -> float | None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(30):
                with Waits.watch(self.waits, self.process.pid, name):
                    await work()
        except Exception as error:
            figures.failed.append(f"{name}: {type(error).__name__} {error}"[:200])
            took = None
        else:
            took = time.monotonic() - began
        figures.all.setdefault(name, []).append(time.monotonic() - began)
        return took

    async def lost_files(self) -> list[str]:
        """The neighbours that do not have their file as it was."""
        lost: list[str] = []
        for number, box in enumerate(self.neighbours):
            try:
                await _read(box, f"{self.name} {number}")
            except Exception as error:
                lost.append(f"{number}: {type(error).__name__} {error}")
        return lost


async def _echo(box: AsyncSandbox) -> None:
    done = await box.commands.run("echo alive", timeout=30)
    assert done.stdout == "alive\n", done


async def _read(box: AsyncSandbox, wanted: str) -> None:
    found = await box.files.read("kept")
    assert found == wanted, found


@contextlib.contextmanager
def _share_of_a_user() -> Iterator[tuple[str, ...]]:
    """A command that gives a program one share of the processors, as systemd does to each user.

    Without it, each process of an ordinary user counts as much as each of root. Empty where there
    are no control groups of version 1 to make one in.
    """
    cpu = find_hierarchies().v1.get("cpu")
    if cpu is None:
        yield ()
        return
    group = cpu / f"sbx-siege-{os.getpid()}"
    group.mkdir()
    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@contextlib.contextmanager
def engines() -> Iterator[list[Besieged]]:
    """Two engines of root and one of an ordinary user."""
    options = tuple(f"--SbxEngine.{name}={value}" for name, value in _LIMITS.items())
    # A Python for every user, and far more processes than ten sandboxes may have.
    as_user = f"prlimit --nproc=3000 setpriv --reuid {UID} --regid {UID} --clear-groups".split()
    paths = f"{CHECKOUT}:{sysconfig.get_path('purelib')}"
    # Control groups of sandboxes have the weight of a process of this priority.
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    with contextlib.ExitStack() as stack:
        found = [
            Besieged(name, "namespaces-root", stack.enter_context(engine_process(name, *options)))
            for name in ("root-1", "root-2")
        ]
        share = stack.enter_context(_share_of_a_user())
        user = engine_process(
            "user",
            *options,
            environment={"PYTHONPATH": paths, "HOME": "/tmp"},
            prefix=(*share, *as_user),
            python="/usr/bin/python3",
            uid=UID,
        )
        yield [*found, Besieged("user", "namespaces-user", stack.enter_context(user))]
