"""A gigabyte of output leaves a notebook usable, and what was cut is said."""

from __future__ import annotations

import json
import time

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.notebook_tools.conftest import KERNEL

pytestmark = pytest.mark.timeout(570)

GIGABYTE = "line = 'x' * 999\nfor _ in range(10**6): print(line)\nprint('the end')"
NULS = "for _ in range(3000): print('\\0' * 10**5, flush=True)\nprint('the end')"
"""Each takes six times its size in a message, and what waits counts to the kernel's memory."""
ENDLESS = "while True: print('y' * 1000)"


class Notebook:
    """A notebook that is run cell by cell."""

    def __init__(self, kernel: str, timeout: int = 500) -> None:
        self.client = NotebookClient(
            nbformat.v4.new_notebook(), kernel_name=kernel, timeout=timeout
        )

    def run(self, source: str) -> str:
        """The text below a cell, and that the notebook is small and answers afterwards."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        started = time.monotonic()
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        print(f"{source.splitlines()[0][:30]!r}: {time.monotonic() - started:.1f} s")
        assert len(json.dumps(cell)) < 20 * 2**20
        return "".join(output.get("text", "") for output in cell["outputs"])


@pytest.mark.parametrize("code", [GIGABYTE, NULS], ids=["a gigabyte", "NUL bytes"])
def test_a_sandboxed_kernel_floods(code: str):
    notebook = Notebook(KERNEL)
    with notebook.client.setup_kernel():
        said = notebook.run(code)
        assert "[cut: " in said
        assert "output left out" in said
        assert "the end" in said[-9000:]
        assert notebook.run("print(6 * 7)") == "42\n"


@pytest.mark.parametrize(
    "cell",
    [
        f"%%sbx\n{GIGABYTE}",
        "%%sbx bash\nyes | head -c 1000000000; echo the end",
        "%%sbx bash\nhead -c 300000000 /dev/zero; echo the end",
        "%%sbx bash\nhead -c 300000000 /dev/urandom; echo the end",
    ],
    ids=["python", "bash", "NUL bytes", "random bytes"],
)
def test_a_cell_of_a_sandbox_floods(cell: str):
    notebook = Notebook("python3")
    with notebook.client.setup_kernel():
        notebook.run("%load_ext sbx_jupyter")
        notebook.run("%sbx create")
        try:
            said = notebook.run(cell.replace("%%sbx", "%%sbx --timeout 8m", 1))
            assert "[cut: " in said or "NUL bytes]" in said
            assert "the end" in said[-100_000:]
            assert "42" in notebook.run("%%sbx bash\necho 42")
        finally:
            notebook.run("%sbx kill")


def test_endless_output_is_interrupted():
    notebook = Notebook(KERNEL, timeout=20)
    with notebook.client.setup_kernel():
        notebook.client.interrupt_on_timeout = True
        with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
            notebook.run(ENDLESS)
        notebook.client.timeout = 60
        assert notebook.run("print(6 * 7)") == "42\n"
