"""Creating a sandbox where none is ready, as the first of a size or from a template."""

from __future__ import annotations

import dataclasses
from typing import Final

from tests.benchmarks.contests import Row
from tests.benchmarks.groups import starts

_REASON: Final = (
    "a process is forked, gets its namespaces, mounts, limits and filter, and its agent is asked"
    " twice before the row is stored; none of this is left out where bwrap does less"
)


def _of(row: Row, name: str) -> Row:
    return dataclasses.replace(row, name=name, reason=_REASON)


ROWS: Final = (
    _of(starts.ROWS[0], "Create a sandbox, none ready"),
    _of(starts.ROWS[1], "Create a sandbox, none ready, and get a program's output"),
)
