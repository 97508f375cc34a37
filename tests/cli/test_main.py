"""The command itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.engine_process import CHECKOUT


@pytest.mark.parametrize("arguments", ["engine --help-all", "--help"])
def test_nothing_is_said_when_the_reader_leaves(arguments: str):
    command = f"{sys.executable} -P -m sbx_jupyter.cli.main {arguments} | true"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, cwd=CHECKOUT)
    assert ran.stderr == b""
