"""Lays siege to an engine in one tier: attacks from inside, health outside; prints one JSON object.

Run as the user of that tier. ``--no-namespaces`` makes a machine on which nobody can have a user
namespace. The engine is a process of its own, with its HTTP interface; nothing is a stand-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.client.api.platform import PlatformClient
from sbx_jupyter.engine.egress.addresses import own_addresses
from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.kernel import syscalls, users
from sbx_jupyter.isolation.resource_use import processes
from sbx_jupyter.protocol.locations import connection_file_of
from tests.security import exhaustion, flooding, interface, keeper_attacks, ports
from tests.security.attacks import SCRIPTS
from tests.security.outside import PROCESSES
from tests.security.surroundings import MARK, Surroundings
from tests.waiting import waiting_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.protocol.platform import SandboxLogEntry

INSIDE = Path(__file__).with_name("inside.py")
OPTIONS = {
    "default_memory_mb": 256, "default_cpu_count": 1, "default_processes": PROCESSES,
    "default_disk_mb": 64, "default_open_files": 1024, "metrics_interval": 1.0, "pool_size": 1,
}  # fmt: skip

LONGEST = 10.0
"""Seconds in which an engine at peace answers, besides what the work of others costs."""

MOST_OTHERS = 5.0
"""Other tiers are besieged at the same time; what they start must not excuse every delay."""

ONLY = os.environ.get("SIEGE_ONLY", "")
"""A pattern of names, to look at some attacks by hand."""


def forbid_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    users.write_maps(os.getpid(), f"{uid} {uid} 1", f"{gid} {gid} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


class Siege:
    def __init__(self, home: Path, tier: str) -> None:
        self.home = home
        self.tier = tier
        self.data = home / "data"
        self.around = Surroundings(home)
        self.results: dict[str, str] = {}
        self.others = 1.0
        """How many programs wanted each processor before the attack that goes on."""
        self.engine: subprocess.Popen[bytes] | None = None

    def start_engine(self) -> ConnectionConfig:
        self.data.mkdir(mode=0o700)
        command = [sys.executable, "-B", "-m", "sbx_jupyter.cli.main", "engine", "--port", "0"]
        command += ["--data-dir", str(self.data)]
        command += ["--connection-file", str(connection_file_of(self.data))]
        command += [f"--SbxEngine.{name}={value}" for name, value in OPTIONS.items()]
        with (self.home / "engine.log").open("wb") as log:
            self.engine = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        path = connection_file_of(self.data)
        deadline = time.monotonic() + 60
        while not path.exists():
            if self.engine.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((self.home / "engine.log").read_text())
            time.sleep(0.02)
        connection = json.loads(path.read_text())
        self.port = int(connection["url"].rpartition(":")[2].strip("/"))
        return ConnectionConfig(api_url=connection["url"], api_key=connection["api_key"])

    async def run(self) -> dict[str, Any]:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.stop_engine)
            config = self.start_engine()
            await self.around.open()
            stack.callback(self.around.close)
            self.platform = await stack.enter_async_context(PlatformClient(config))
            self.config = config
            sibling = await stack.enter_async_context(await self.create())
            box = await stack.enter_async_context(await self.create())
            self.sibling = sibling
            await sibling.files.write("of-the-sibling", MARK)
            await sibling.commands.run("python3 -m http.server 8123", background=True, timeout=0)
            described = await box.isolation()
            await self.try_scripts(box, "root")
            await self.try_scripts(box, "user")
            await self.note_health("scripts")
            await self.try_all([*interface.ATTACKS, *ports.ATTACKS], box)
            await self.note_health("interface")
            await self.try_all([*exhaustion.ATTACKS, *flooding.ATTACKS], box)
            await self.note_health("exhaustion")
        return {"isolation": described, "results": self.results}

    async def create(self, **fields: Any) -> AsyncSandbox:
        return await AsyncSandbox.create(platform=self.platform, timeout=600, **fields)

    async def create_and_kill(self) -> None:
        async with await self.create():
            pass

    async def try_scripts(self, box: AsyncSandbox, user: str) -> None:
        chosen = {
            a.name: a.script
            for a in (*SCRIPTS, *keeper_attacks.ATTACKS)
            if self.tier in a.tiers and a.user == user
        }
        given = {"context": self.context(box), "scripts": chosen}
        # A place that both interfaces name alike, also where /tmp is the host's.
        folder = "/tmp/siege"
        await box.files.write(f"{folder}/inside.py", INSIDE.read_bytes(), user="root")
        await box.files.write(f"{folder}/given.json", json.dumps(given), user="root")
        where = "${TMPDIR:-/tmp}/siege"
        done = await box.commands.run(
            f"chmod -R a+rX {where}; exec python3 -B {where}/inside.py {where}/given.json",
            user=user, timeout=100,
        )  # fmt: skip
        if done.exit_code != 0:
            raise SystemExit(f"the scripts could not be tried: {done.stderr[-2000:]}")
        self.results.update(json.loads(done.stdout)["results"])

    def context(self, box: AsyncSandbox) -> dict[str, Any]:
        cage = json.loads((self.data / "cages" / box.sandbox_id).read_text())
        first = 1 if self.tier != "landlock" else descendants.descendants(cage["pid"])[0]
        (marker,) = (self.data / "sandboxes").glob("*/upper/home/user/of-the-sibling")
        assert self.engine is not None
        return {
            **self.around.context(),
            "data": str(self.data),
            "engine": self.engine.pid,
            "engine_port": self.port,
            "first": first,
            "sibling": self.sibling.sandbox_id,
            "sibling_file": str(marker),
            "sibling_port": 8123,
            "agent": str(self.data / "run" / box.sandbox_id / "agent.sock"),
            "addresses": [str(a) for a in own_addresses() if not a.is_loopback and a.version == 4],
            "disk": os.stat("/").st_dev >> 8 & 0xFFF,
            "harmless": "",
        }

    async def try_all(self, attacks: list[Any], box: AsyncSandbox) -> None:
        for attack in attacks:
            if self.tier not in attack.tiers or not re.search(ONLY, attack.name):
                continue
            await self.look_at_others()
            started = time.monotonic()
            try:
                text = await asyncio.wait_for(attack.run(self, box), 200)
            except AssertionError as error:
                text = f"BREACH {error}"
            except Exception as error:
                text = f"BREACH unexpected {type(error).__name__} {error}"
            self.results[attack.name] = text or "held"
            if os.environ.get("SIEGE_TIMES"):
                print(f"{time.monotonic() - started:6.2f} {attack.name}: {text}", file=sys.stderr)

    async def look_at_others(self) -> None:
        """Note how busy others keep the machine, while no attack goes on here."""
        looks: list[float] = []
        for _ in range(10):
            looks.append(waiting_programs())
            await asyncio.sleep(0.005)
        self.others = min(sum(looks) / len(looks), MOST_OTHERS)

    async def note_health(self, after: str) -> None:
        await self.look_at_others()
        try:
            await self.check_health()
            self.around.check()
        except Exception as error:
            self.results[f"health after {after}"] = f"BREACH {type(error).__name__} {error}"
        else:
            self.results[f"health after {after}"] = "healthy"

    async def check_health(self) -> float:
        """The engine and another sandbox answer; how long that took."""
        started = time.monotonic()
        async with asyncio.timeout(LONGEST * self.others):
            assert await self.sibling.is_running()
            done = await self.sibling.commands.run("cat of-the-sibling")
            assert done.stdout == MARK
        assert self.engine is not None
        assert self.engine.poll() is None
        return time.monotonic() - started

    def engine_memory(self) -> int:
        assert self.engine is not None
        fields = Path(f"/proc/{self.engine.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    @contextlib.contextmanager
    def memory_peak(self, box: AsyncSandbox) -> Iterator[list[int]]:
        """The most that the processes of a sandbox have together meanwhile, seen from outside."""
        cage = json.loads((self.data / "cages" / box.sandbox_id).read_text())
        peak = [0]
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(0.03):
                pids = descendants.members(cage["pid"], kept=cage["kept"])
                peak[0] = max(peak[0], sum(processes.exact_memory(pid).resident for pid in pids))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield peak
        finally:
            is_over.set()
            looking.join()

    async def logs(self, box: AsyncSandbox) -> list[SandboxLogEntry]:
        """What the engine has logged of a sandbox so far."""
        return await self.platform.logs(box.sandbox_id)

    def stop_engine(self) -> None:
        assert self.engine is not None
        self.engine.send_signal(signal.SIGTERM)
        try:
            self.engine.wait(20)
        except subprocess.TimeoutExpired:
            self.engine.kill()
            self.engine.wait()


def main() -> None:
    home, tier = Path(sys.argv[1]), sys.argv[2]
    signal.alarm(1200)
    if "--no-namespaces" in sys.argv:
        forbid_namespaces()
    told = asyncio.run(Siege(home, tier).run())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
