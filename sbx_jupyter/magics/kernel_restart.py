"""Keeps "every cell runs in a sandbox" through a restart of the notebook's kernel.

The setting lies beside the kernel's connection file, which a restarted kernel has again. A file in
IPython's startup folder calls ``resume`` before the first cell, so that none runs here unnoticed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

ATTRIBUTE: Final = "_sbx_magics"
"""Attribute of a shell that holds the magics, once they are loaded."""

_RESUMES: Final = "_sbx_resumes"
"""Set on a shell whose startup called ``resume``, as that of the restarted kernel will."""

_SUFFIX: Final = ".sbx-default"


def keep(shell: Any, line: str, sandbox_id: str) -> bool:
    """Keep the setting for the restarted kernel; false where that is not possible.

    It needs a kernel for which the startup file of this package is installed.
    """
    path = _path()
    if path is None or not getattr(shell, _RESUMES, False):
        return False
    _remove_stale(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"line": line, "sandbox": sandbox_id}, file)
    return True


def forget() -> None:
    """Let a restarted kernel run cells itself."""
    if (path := _path()) is not None:
        path.unlink(missing_ok=True)


def resume(shell: Any) -> None:
    """Send the cells of a restarted kernel to the sandbox that they ran in before."""
    setattr(shell, _RESUMES, True)
    path = _path()
    if path is None or not path.exists():
        return
    # First of all: whatever fails below, no cell runs here.
    shell.input_transformers_cleanup.insert(0, _refuse)
    kept = json.loads(path.read_bytes())
    shell.extension_manager.load_extension("sbx_jupyter")
    magics = getattr(shell, ATTRIBUTE)
    magics.session.former = str(kept["sandbox"])
    magics.routing.turn_on(str(kept["line"]))
    shell.input_transformers_cleanup.remove(_refuse)


def _refuse(_lines: list[str]) -> list[str]:
    message = (
        "cells of this notebook run in a sandbox (%sbx default on), but after the restart of the "
        "kernel sbx-jupyter cannot be loaded; nothing of this cell was run"
    )
    return [f"raise RuntimeError({message!r})\n"]


def _path() -> Path | None:
    """The file of this kernel; ``None`` outside kernels."""
    application: Any = sys.modules.get("ipykernel.kernelapp")
    if application is None or not application.IPKernelApp.initialized():
        return None
    file = Path(application.IPKernelApp.instance().abs_connection_file)
    return file.with_name(f"{file.name}{_SUFFIX}")


def _remove_stale(folder: Path) -> None:
    """Remove the files that kernels left which are shut down."""
    for left in folder.glob(f"*{_SUFFIX}"):
        if not left.with_name(left.name.removesuffix(_SUFFIX)).exists():
            left.unlink(missing_ok=True)
