"""papermill, nbconvert, ``jupyter console`` and the culling of a Jupyter server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets.config import Config

from sbx_jupyter.client import Sandbox
from tests.notebook_tools.conftest import KERNEL
from tests.waiting import async_until, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
SPEC = {"name": KERNEL, "display_name": "Python 3 (sandbox)", "language": "python"}
WHERE = "import socket; print('in', socket.gethostname())"


def write(path: Path, *cells: nbformat.NotebookNode) -> Path:
    nbformat.write(nbformat.v4.new_notebook(cells=[*cells], metadata={"kernelspec": SPEC}), path)
    return path


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )


def texts(path: Path) -> str:
    notebook = nbformat.read(path, as_version=4)
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    return "".join(each.get("text", "") for each in outputs)


def test_papermill_runs_a_notebook_with_parameters(tmp_path: Path):
    parameters = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]})
    source = write(
        tmp_path / "in.ipynb", parameters, nbformat.v4.new_code_cell(f"{WHERE}; print('x is', x)")
    )
    made = tmp_path / "out.ipynb"

    ran = run("papermill", str(source), str(made), "-p", "x", "42", "--no-progress-bar")

    assert ran.returncode == 0, ran.stdout
    assert "x is 42" in texts(made)
    assert "in i" in texts(made)


def test_papermill_stops_at_an_error_and_says_it(tmp_path: Path):
    cells = [nbformat.v4.new_code_cell(code) for code in ("1 / 0", "print('never')")]
    made = tmp_path / "out.ipynb"

    ran = run("papermill", str(write(tmp_path / "in.ipynb", *cells)), str(made))

    assert ran.returncode != 0
    assert "ZeroDivisionError" in ran.stdout
    assert "never" not in texts(made)


def test_nbconvert_executes_a_notebook(tmp_path: Path):
    source = write(tmp_path / "in.ipynb", nbformat.v4.new_code_cell(WHERE))

    ran = run("nbconvert", "--execute", "--to", "notebook", "--output", "out.ipynb", str(source))

    assert ran.returncode == 0, ran.stdout
    assert "in i" in texts(tmp_path / "out.ipynb")


def test_a_console_runs_code_and_ends_its_sandbox():
    ran = run(
        "jupyter_console", "--kernel", KERNEL, "--simple-prompt", text=f"{WHERE}\n6 * 7\nexit\n"
    )

    assert "in i" in ran.stdout
    assert "42" in ran.stdout


async def test_a_kernel_that_nobody_uses_is_culled_with_its_sandbox():
    # A server keeps another sandbox ready, which is not culled with the kernel.
    manager = AsyncMappingKernelManager(
        cull_idle_timeout=3,
        cull_interval=1,
        cull_connected=True,
        default_kernel_name=KERNEL,
        config=Config({"SandboxProvisioner": {"keep_ready": False}}),
    )
    kernel_id = await manager.start_kernel(kernel_name=KERNEL)
    busy: Any = manager.get_kernel(kernel_id).client()
    busy.start_channels()
    await busy.wait_for_ready(timeout=60)
    reply = await busy.execute_interactive("import time; time.sleep(6)", timeout=60)
    assert reply["content"]["status"] == "ok"
    assert kernel_id in manager.list_kernel_ids()
    busy.stop_channels()

    await async_until(lambda: kernel_id not in manager.list_kernel_ids(), timeout=60)
    await asyncio.to_thread(until, lambda: Sandbox.list() == [])
