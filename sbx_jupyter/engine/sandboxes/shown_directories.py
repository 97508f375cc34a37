"""Checks which directories of the machine a sandbox may see besides those that all see."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST: Final = 4
_MIN_PARTS: Final = 3
"""Parts of the path, with the root: ``/opt/environment`` has as many."""
_OPEN_TO_ALL: Final = 0o005


def check_shown(paths: Sequence[str], *, data_dir: Path) -> tuple[str, ...]:
    """The directories that a request names, each once.

    They must be prefixes of programs, with a ``bin`` in them, that others may read. Raises
    ``InvalidArgumentError``, and ``PermissionDeniedError`` for a caller who is not the engine's
    operator: the others on an engine may not decide what is shown of its machine.
    """
    if caller().owner:
        raise PermissionDeniedError("only the engine's own key may show directories of its machine")
    if len(set(paths)) > MOST:
        raise InvalidArgumentError(f"shownDirectories: at most {MOST} are allowed")
    for path in paths:
        if reason := _why_not(path, data_dir):
            raise InvalidArgumentError(f"the directory '{path[:200]}' is not shown: {reason}")
    return tuple(dict.fromkeys(paths))


def _why_not(path: str, data_dir: Path) -> str:
    """Why a directory cannot be shown; empty if it can."""
    if not path.startswith("/") or "\0" in path:
        return "its path must be absolute"
    if len(Path(path).parts) < _MIN_PARTS:
        return "it holds more than one environment"
    try:
        if os.path.realpath(path, strict=True) != path:
            return "a symbolic link leads to it, or its path has needless parts; name it directly"
        mode = os.stat(path).st_mode
        has_programs = os.path.isdir(os.path.join(path, "bin"))
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not has_programs:
        return "it has no 'bin', so it is no environment"
    if mode & _OPEN_TO_ALL != _OPEN_TO_ALL:
        return "other users of the machine may not read it"
    if data_dir.is_relative_to(path):
        return "the engine keeps its own files there"
    return ""
