"""Puts a first cell into each notebook of a folder: sandboxes are not isolated here."""

import sys
from pathlib import Path

import nbformat

TEXT = (
    '<div style="background:#b3261e;color:#fff;font-weight:bold;padding:4px 8px">Not isolated: '
    "this host allows neither user namespaces nor Landlock, so programs of a sandbox can do all "
    "that you can do here. Do not run code that you do not trust.</div>"
)

for path in Path(sys.argv[1]).glob("*.ipynb"):
    notebook = nbformat.read(path, as_version=4)
    if notebook.cells[0].get("id") != "not-isolated":
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(TEXT, id="not-isolated"))
        nbformat.write(notebook, path)
