"""An engine, and the sandboxed kernel where Jupyter's programs look for kernels."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.client import Sandbox
from sbx_jupyter.client.blocking import Portal
from tests.engine_process import CHECKOUT, EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNEL = "sbx-python3"


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with engine_process("tools") as running:
        yield running


@pytest.fixture(autouse=True)
def environment(
    engine: EngineProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The environment of programs; no sandbox of a kernel is left at the end."""
    data = tmp_path / "jupyter"
    shutil.copytree(CHECKOUT / "sbx_jupyter" / "kernel" / "spec", data / "kernels" / KERNEL)
    given = {
        "E2B_API_URL": engine.url,
        "E2B_SANDBOX_URL": engine.url,
        "E2B_API_KEY": engine.key,
        "JUPYTER_DATA_DIR": str(data),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHONPATH": str(CHECKOUT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    # A console keeps its connection file where it was started.
    monkeypatch.chdir(tmp_path)
    yield dict(os.environ)
    assert [item.sandbox_id for item in Sandbox.list()] == []
    Portal.current().close()
