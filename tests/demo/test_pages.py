"""The pages of the documentation: their blocks of Python run and give what comments say."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.engine_process import CHECKOUT, EngineProcess, environment_of_kernels

if TYPE_CHECKING:
    from pathlib import Path

TOUR = "docs/tutorial.md"  # see test_tutorial
RUN = ("README.md", "docs/hub.md", "docs/magics.md", "docs/network.md", "docs/widgets.md", TOUR)


@pytest.mark.timeout(180)
def test_the_blocks_of_the_pages_run(shared_engine: EngineProcess, tmp_path: Path) -> None:
    with environment_of_kernels(shared_engine, tmp_path):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.docs.code_blocks", *(set(RUN) - {TOUR})],
            env=dict(os.environ), cwd=CHECKOUT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (0, "")
