"""The pages of the documentation: their blocks of Python run and give what comments say."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter import ConnectionConfig
from sbx_jupyter.client.connection.environment import client_environment
from tests.engine_process import CHECKOUT, EngineProcess, environment_of_kernels

if TYPE_CHECKING:
    from pathlib import Path

TOUR = "docs/tutorial.md"  # see test_tutorial
OF_E2B = "docs/volumes.md"
"""Its blocks use the e2b package too, which finds the engine by variables."""

RUN = (
    "README.md",
    "docs/hub.md",
    "docs/magics.md",
    "docs/network.md",
    "docs/set-limits.md",
    "docs/widgets.md",
    OF_E2B,
    TOUR,
)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_blocks_of_the_pages_run(shared_engine: EngineProcess, tmp_path: Path) -> None:
    with environment_of_kernels(shared_engine, tmp_path):
        run(sorted({*RUN} - {TOUR, OF_E2B}), {})
        config = ConnectionConfig.from_connection_file(shared_engine.connection)
        run([OF_E2B], client_environment(config, os.environ))


def run(pages: list[str], variables: dict[str, str]) -> None:
    """Run the blocks of pages in a process with these variables."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.docs.code_blocks", *pages],
        env=os.environ | variables, cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
