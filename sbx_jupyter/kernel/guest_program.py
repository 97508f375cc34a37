"""The program that runs in a sandbox, as one file."""

from __future__ import annotations

import functools
import io
import zipfile
from importlib.resources import files

_PACKAGE = "sbx_guest"
"""Differs from the name here: a sandbox may have this package as well, of another version."""
_MAIN = f"from {_PACKAGE}.program import main\n\nmain()\n"


@functools.cache
def guest_program() -> bytes:
    """The modules of ``guest`` in an archive that Python runs by its path."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", _MAIN)
        for module in files("sbx_jupyter.kernel.guest").iterdir():
            if module.name.endswith(".py"):
                file.writestr(f"{_PACKAGE}/{module.name}", module.read_bytes())
    return archive.getvalue()
