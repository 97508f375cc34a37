"""The system's Python, which users other than that of the tests may run, with what kernels need."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = "/usr/bin/python3"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@contextlib.contextmanager
def environment_for_all(folder: str, *more: str) -> Iterator[Path]:
    """An environment of every user's Python below ``folder``, with what kernels need.

    ``more`` names packages that it has besides, where the environment of the tests has them.
    """
    made = Path(tempfile.mkdtemp(prefix="sbx-python-for-all-", dir=folder))
    made.chmod(0o755)
    try:
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", "--clear", made], check=True)
        copy_packages(made / "lib" / VERSION / "site-packages", ["ipykernel", *more])
        yield made
    finally:
        shutil.rmtree(made)


def copy_packages(target: Path, names: list[str]) -> None:
    """Give an environment packages, with all that they need, from the environment of the tests."""
    todo, known = [*names], set[str]()
    while todo:
        name = todo.pop()
        if name in known:
            continue
        known.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        for file in found.files or ():
            source = Path(file.locate())
            if ".." not in file.parts and source.is_file():
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / file)
        needed = [wanted for wanted in found.requires or () if "extra ==" not in wanted]
        todo += [re.split(r"[^\w.-]", wanted, maxsplit=1)[0] for wanted in needed]
