"""Sandboxes that take all that a proxy gives, and what is left for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.engine.egress.world import MISSING, World
from tests.engine_process import EngineProcess, engine_process
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

PATIENCE = 60.0
TUNNELS = 400
"""More than one sandbox may have."""

DEAF = """
import socket, sys, time
target, count = sys.argv[1], int(sys.argv[2])
kept = []
for _ in range(count):
    sock = socket.create_connection(("127.0.0.1", 49982))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
    kept.append(sock)
    if len(kept) > 384: break
print("asked", flush=True)
time.sleep(300)
"""


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[EngineProcess]:
    options = (f"--ip={world.engine_ip}", "--pool-size=1")
    with engine_process("flood", *options, prefix=world.enter()) as running:
        yield running


def resident_mb(engine: EngineProcess) -> float:
    status = Path(f"/proc/{engine.connection.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def ask(sandbox: Sandbox, target: str) -> None:
    sandbox.files.write("/tmp/deaf.py", DEAF)
    sandbox.commands.run(f"python3 /tmp/deaf.py {target} {TUNNELS}", background=True, timeout=0)


def fetch(sandbox: Sandbox, name: str) -> int | None:
    return sandbox.commands.run(
        f"curl -sS --max-time 30 http://{name}:8080/ -o /dev/null", timeout=60
    ).exit_code


def test_answers_that_nobody_reads_fill_no_memory_and_hold_up_nobody(
    config: ConnectionConfig, engine: EngineProcess, world: World
) -> None:
    with (
        Sandbox.create(config=config, timeout=300) as greedy,
        Sandbox.create(config=config, timeout=300) as other,
    ):
        before, hits = resident_mb(engine), len(world.hits())
        ask(greedy, "20.0.0.10:7070")
        until(lambda: len(world.hits()) - hits >= 256)
        for _ in range(5):
            assert fetch(other, "server.test") == 0
        grown = resident_mb(engine) - before

        assert len([hit for hit in world.hits()[hits:] if hit.startswith("tcp")]) <= 256 + 5
        assert grown < 300, f"the engine grew by {grown:.0f} MiB"


def test_names_that_nobody_answers_hold_up_only_who_asks(
    config: ConnectionConfig, engine: EngineProcess, world: World
) -> None:
    with (
        Sandbox.create(config=config, timeout=300) as greedy,
        Sandbox.create(config=config, timeout=300) as other,
    ):
        hits = len(world.hits())
        ask(greedy, "slow.test:80")
        until(lambda: "dns slow.test" in world.hits()[hits:])
        for _ in range(5):
            assert fetch(other, "server.test") == 0
        other.files.write("note", "the engine's own threads are free")
        assert other.files.read("note").startswith("the engine")
