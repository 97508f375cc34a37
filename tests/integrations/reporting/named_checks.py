"""How the programs in ``clients``, whose environments lack this checkout, tell of their checks."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def check(name: str) -> Iterator[None]:
    """A check of this name, which fails by any exception; what follows it is still run."""
    try:
        yield
    except Exception as error:  # whatever a check finds
        said = " ".join(str(error).split())[:300]
        report(name, f"{type(error).__name__}: {said}")
    else:
        report(name, None)


def report(name: str, failure: str | None) -> None:
    """Tell that a check passed, or why it failed."""
    print(f"{name}: {failure or 'passed'}", flush=True)
    with Path(os.environ["SBX_CHECKS"]).open("a") as file:
        file.write(json.dumps([name, failure]) + "\n")
