"""Gives notebooks the metadata that JupyterLab writes when it opens them with the kernel of here.

Without it, each is marked as changed, and saved, as soon as it is opened:
`python match_kernel.py SOURCE [TARGET]`, folders both. With a target, the notebooks are copied, and
copies that are there already stay.
"""

import sys
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import KernelSpecManager

NAME = "python3"


def match(source: Path, target: Path) -> None:
    """Write one notebook with the metadata of the kernel."""
    notebook = nbformat.read(source, as_version=4)
    spec = KernelSpecManager().get_kernel_spec(NAME)
    notebook.metadata["kernelspec"] = {
        "name": NAME,
        "display_name": spec.display_name,
        "language": spec.language,
    }
    notebook.metadata["language_info"] = IPythonKernel.language_info
    nbformat.write(notebook, target)


def main(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in sorted(source.glob("*.ipynb")):
        made = target / path.name
        if source == target or not made.exists():
            match(path, made)


if __name__ == "__main__":
    folders = [Path(each) for each in sys.argv[1:3]]
    main(folders[0], folders[-1])
