"""A helper with a data directory of its own, and a connection to it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.isolation.privileged import account, messages
from sbx_jupyter.isolation.privileged.connection import HelperConnection
from sbx_jupyter.isolation.privileged.helper_options import HelperOptions
from sbx_jupyter.isolation.privileged.supervisor import start_supervisor

ENGINE_USER = account.FIRST_ID + 7


@pytest.fixture
def data_dir() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root has privileges to give up")
    folder = Path(tempfile.mkdtemp(prefix="sbx-helper-", dir="/tmp"))
    folder.chmod(0o711)
    opened = DataDir(folder / "data")
    opened.open()
    account.take_over(opened.path, ENGINE_USER)
    yield opened.path
    opened.close()
    shutil.rmtree(folder)


@pytest.fixture
async def connection(data_dir: Path) -> AsyncIterator[HelperConnection]:
    supervisor = start_supervisor(msgspec.json.encode(options_of(data_dir)).decode())
    opened = HelperConnection(supervisor)
    yield opened
    await opened.aclose(messages.Stop())


def options_of(data_dir: Path) -> HelperOptions:
    return HelperOptions(
        data_dir=str(data_dir),
        isolation="auto",
        owner=ENGINE_USER,
        connection_file=str(data_dir.parent / "engine.json"),
        cpu_weight=100,
        host_ids="524288-1879048191",
    )


def helper_of(data_dir: Path) -> int:
    """The process of the helper that serves a data directory."""
    return msgspec.json.decode((data_dir / "helper" / "helper.json").read_bytes())["pid"]
