"""Runs ``jupyter sbx storage create`` and kills it at a call.

Arguments: the module and the name of a function, ``before`` or ``after`` it, which call of it; then
those of the command.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

from sbx_jupyter.cli import main


def kill_at(module: str, name: str, when: str, count: int) -> None:
    """Replace a function by one that ends this process at a call."""
    owner: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    function = getattr(owner, last)
    calls = 0

    def replacement(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **named)
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, replacement)


if __name__ == "__main__":
    kill_at(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit(main.main(sys.argv[5:]))
