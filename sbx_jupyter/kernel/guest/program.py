"""The guest's program, called with the names of modules to import.

It imports ``ipykernel`` and the modules first, while it has one thread, and says
``{"ready": true}``. Then it forks for each kernel, which so starts without imports and shares their
memory with the others of its sandbox, and with nothing outside.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
from pathlib import Path

from .forking import Zygote
from .processes import say


def _preload(modules: list[str]) -> None:
    """Import what kernels need, and of the modules those that are there."""
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parents[1])]
    sys.argv = ["ipykernel_launcher"]
    # Read when matplotlib is imported; a kernel sets it otherwise.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    needed = ["zmq.asyncio", "tornado.httpserver", "tornado.websocket"]
    kernels = ["ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "comm"]
    for name in [*needed, *kernels, *modules]:
        # A module that fails here fails in the kernel, where somebody reads why.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what lives now lives for ever: its pages stay shared


def main() -> None:
    for needed in ("tornado", "zmq"):
        if importlib.util.find_spec(needed) is None:
            say(error=f"the sandbox's Python lacks {needed}")
            sys.exit(1)
    _preload(sys.argv[1:])
    say(ready=True)
    Zygote().run()
