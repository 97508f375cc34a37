"""Executes the notebooks of ``binder/``, and says what their cells show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient

from tests.engine_process import CHECKOUT, EngineProcess, environment_of_kernels

if TYPE_CHECKING:
    from pathlib import Path

Cells = dict[str, Any]
"""Executed code cells by their ids."""

SHOWN = {
    "tour": {
        "create": "3 sandboxes on this machine, with the tier (namespaces|landlock|none)",
        "apart": (
            r"^I am in apple. Programs here: 1\n"
            r"I am in berry. Programs here: 1\n"
            r"I am in cherry. Programs here: 1\n"
        ),
        "terminal": "widgets.terminal.Terminal object",
        "chart": "widgets.metrics.MetricsChart object",
        "fork": r"cherry: I am in cherry.\nits copy: I am a copy.\n",
        "end": r"True\n\['apple', 'berry'\]",
    },
    "untrusted-code": {
        "run": r"words: 7\nkeys in the environment: \[\]\nkeys of ssh: \[\]\nthe network refuses",
        "changes": "False",
        "loop": "stopped: ",
    },
    "agent-loop": {
        "loop": r"(?s)exit status 1\n.*TypeError.*exit status 0\nRome +\d+ #+\n.*ANSWER: Rome",
        "end": r"\['step-1.py', 'step-2.py'\]",
    },
    "web-app": {
        "open": r"http://8000-\w+\.localhost:\d+/",
        "ask": "200 <h1>1 visits</h1>",
        "end": "True True",
    },
    "e2b-unmodified": {
        "env": "E2B_API_URL",
        "run": "Hello from user",
        "files": r"\['one.txt', 'two.txt'\]",
        "stream": "line 1\nline 2\nline 3\n",
        "widget": "FileBrowser",
        "end": "True",
    },
    "teaching": {
        "grade": "Ada   5/5\nBen   3/5\nCleo  edited the tests\nDan   took too long",
        "end": "True True",
    },
}
"""What each cell shows at least, as a regular expression, by notebook and id of the cell."""


def executed(name: str, engine: EngineProcess, home: Path) -> Cells:
    """The cells of a notebook after they ran in a kernel, with files in ``home``."""
    notebook = nbformat.read(CHECKOUT / "binder" / f"{name}.ipynb", as_version=4)
    with environment_of_kernels(engine, home):
        where = {"metadata": {"path": str(home)}}
        NotebookClient(notebook, timeout=40, resources=where).execute()
    return {cell["id"]: cell for cell in notebook.cells if cell.cell_type == "code"}


def text_of(cell: Any) -> str:
    """What a cell printed and the text of its results."""
    return "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


def check(name: str, cells: Cells) -> None:
    """Check that no cell printed an error, and that cells show what they should."""
    for cell in cells.values():
        assert all(output.get("name") != "stderr" for output in cell.outputs), cell
    for name_of_cell, pattern in SHOWN.get(name, {}).items():
        text = text_of(cells[name_of_cell])
        assert re.search(pattern, text), f"{name_of_cell}: {text}"
