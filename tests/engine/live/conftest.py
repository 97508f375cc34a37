"""Real sandboxes: a fence, a cage with an agent in it, and the engine's view of that."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.engine.live.process import ProcessSettings
from sbx_jupyter.engine.live.sandbox import SOCKET_NAME, Sandbox
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits
from sbx_jupyter.isolation.tiers import choose, detect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from sbx_jupyter.isolation.cage import Cage

SANDBOX_ID = "iruntimetests"


@pytest.fixture(scope="session")
def data_dir() -> Iterator[Path]:
    """One for the session: the stock root file system is made once."""
    folder = Path(tempfile.mkdtemp(prefix="runtime-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def limits() -> Limits:
    return Limits(memory_mb=512, cpu_count=2, processes=400, disk_mb=1024, open_files=1024)


@pytest.fixture
async def fence(data_dir: Path) -> AsyncIterator[Fence]:
    report = detect(data_dir)
    fence = Fence(data_dir, report, choose(report))
    await fence.start()
    yield fence
    await fence.stop()


@pytest.fixture
def run_dir(data_dir: Path) -> Iterator[Path]:
    folder = data_dir / "run" / SANDBOX_ID
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def cage(fence: Fence, data_dir: Path, run_dir: Path, limits: Limits) -> AsyncIterator[Cage]:
    """A fenced sandbox whose agent waits for an engine."""
    writable = data_dir / "writable" / SANDBOX_ID
    spec = FenceSpec(
        sandbox_id=SANDBOX_ID, layers=(), base="host", writable=writable, limits=limits
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(run_dir / SOCKET_NAME))
        listener.listen(8)
        cage = await fence.create(spec, listener)
    yield cage
    await cage.kill()
    cage.close()
    await fence.tree_operations.remove(writable)


@pytest.fixture
async def make_sandbox(
    cage: Cage, run_dir: Path, limits: Limits
) -> AsyncIterator[Callable[..., Awaitable[Sandbox]]]:
    """Connects to the one cage of the test, as the first engine or one after it."""
    made: list[Sandbox] = []

    async def make(**settings: float) -> Sandbox:
        process_settings = ProcessSettings(**settings)  # type: ignore[arg-type]
        sandbox = Sandbox(
            SANDBOX_ID, cage, run_dir, limits=limits, process_settings=process_settings
        )
        made.append(sandbox)
        await sandbox.open(envs={"E2B_SANDBOX": "true"}, default_user="user", default_cwd="")
        return sandbox

    yield make
    for sandbox in made:
        await sandbox.aclose()


@pytest.fixture
async def sandbox(make_sandbox: Callable[..., Awaitable[Sandbox]]) -> Sandbox:
    """A live sandbox with the usual settings."""
    return await make_sandbox()
