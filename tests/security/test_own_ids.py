"""What the kernel counts for each id of the host, one sandbox cannot use up for others."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.ids import blocks
from sbx_jupyter.isolation.tiers import detect
from tests.isolation.inside import sandbox
from tests.security.outside import FLOOD_IN_FLIGHT
from tests.waiting import async_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.isolation.inside import Inside

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

COUNTED = {
    "descriptors in flight": (
        FLOOD_IN_FLIGHT,
        """
        import os, socket
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(1000): socket.send_fds(pair[0], [b"x"], [0]); socket.recv_fds(pair[1], 1, 1)
        print("as before")
        """,
    ),
    "pages of pipes": (
        """
        import fcntl, os, resource, time
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        kept = []
        try:
            while len(kept) < 2000:
                kept.append(os.pipe())
                fcntl.fcntl(kept[-1][0], fcntl.F_SETPIPE_SZ, 1 << 20)
        except OSError as error: print(len(kept), error, flush=True)
        time.sleep(60)
        """,
        """
        import fcntl, os
        own = os.pipe()
        fcntl.fcntl(own[0], fcntl.F_SETPIPE_SZ, 1 << 19)
        print("as before")
        """,
    ),
}


@pytest.fixture
async def fence() -> AsyncIterator[Fence]:
    """A fence of an engine of root."""
    with tempfile.TemporaryDirectory(prefix="sbx-own-ids-") as folder:
        report = detect(Path(folder))
        if (report.tier, report.users) != ("namespaces", "root-mapped"):
            pytest.skip(f"needs namespaces: {report.missing}")
        fence = Fence(Path(folder), report, report.tier)
        await fence.start()
        yield fence
        await fence.collect(set())
        await fence.stop()


def data_of(fence: Fence) -> Path:
    assert fence.stock is not None
    return fence.stock.parents[1]


def python(code: str) -> str:
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return f"exec python -c {shlex.quote(chr(10).join(line[indent:] for line in lines))}"


@pytest.mark.parametrize("what", COUNTED)
async def test_a_sandbox_at_its_limit_changes_nothing_in_another(fence: Fence, what: str) -> None:
    fill, use = COUNTED[what]
    data = data_of(fence)
    async with sandbox(fence, data, "floods") as hostile, sandbox(fence, data, "works") as other:
        assert (await other.run(python(use), user="root")).out == "as before\n"
        for user in ("root", "user"):
            await hostile.start(f"{python(fill)} > /tmp/full-{user}", user=user)
            await _until_full(hostile, f"upper/tmp/full-{user}")
        for user in ("root", "user"):
            ran = await other.run(python(use), user=user)
            assert ran.out == "as before\n", ran.err


async def _until_full(hostile: Inside, name: str) -> None:
    told = hostile.cage.writable / name
    await async_until(lambda: told.exists() and told.read_text())


async def test_no_id_of_a_sandbox_is_in_a_range_of_a_local_user(tmp_path: Path) -> None:
    # Two ranges of neighbours, of the usual places and over nearly everything for containers.
    free = 28_000 * 65536
    ranges = tmp_path / "subuid"
    ranges.write_text(
        f"neighbour:165536:65536\nneighbour:524288:{free - 524288}\n"
        f"other:{free + 65536}:{1879048192 - free - 65536}\n"
    )
    targets = ("/etc/subuid", "/etc/subgid")
    mounts = "".join(f"touch {path}; mount --bind {ranges} {path}\n" for path in targets)
    # A registry of its own: a sandbox of another test may have the only block that is left.
    registry = os.path.dirname(blocks.REGISTRY)
    mounts += f"mkdir -p {registry}; mount -t tmpfs -o mode=755 registry {registry}\n"
    done = await asyncio.to_thread(
        subprocess.run,
        ["unshare", "-m", "sh", "-ec", f'{mounts} exec "$0" -m tests.security.test_own_ids "$1"',
         sys.executable, str(tmp_path / "data")],
        capture_output=True, text=True, timeout=50, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", str(free), "65536"]


async def _print_ids(data: Path) -> None:
    report = detect(data)
    fence = Fence(data, report, report.tier)
    await fence.start()
    async with sandbox(fence, data, "near") as inside:
        print(Path(f"/proc/{inside.cage.pid}/uid_map").read_text())
    await fence.stop()


if __name__ == "__main__":
    asyncio.run(_print_ids(Path(sys.argv[1])))
