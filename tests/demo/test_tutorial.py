"""The page "First steps": its blocks of Python run in their order and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.engine_process import CHECKOUT, EngineProcess, environment_of_kernels

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_tutorial_run(shared_engine: EngineProcess, tmp_path: Path) -> None:
    blocks = BLOCK.findall((CHECKOUT / "docs" / "tutorial.md").read_text())
    program = tmp_path / "tutorial.py"
    program.write_text("\n".join(blocks))

    with environment_of_kernels(shared_engine, tmp_path):
        ran = subprocess.run(
            [sys.executable, str(program)], env=dict(os.environ), capture_output=True, text=True
        )

    assert (ran.returncode, ran.stderr) == (0, "")
    lines = [line for line in ran.stdout.splitlines() if line]
    assert lines[:2] == ["user", "42"]
    assert re.match("2 ls: .*No such file", lines[2])
    both = ["written from the notebook", "added in the sandbox"]
    assert lines[3:5] == both
    assert re.match(r"http://8000-\w+\.localhost:\d+/", lines[5])
    assert lines[6:] == [*both, "True"]
