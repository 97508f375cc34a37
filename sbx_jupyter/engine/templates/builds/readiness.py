"""Finds out when a start command is ready, for templates without a real ready command (7.4).

A ready command that only sleeps gives the start command time before the template is captured. Here
each sandbox runs the start command anew, so every creation would wait that long. Instead, a build
notes the ports that the start command listens on, and new sandboxes wait for these: never longer
than the sleep, and never with a failure.
"""

from __future__ import annotations

import re
from typing import Final

from sbx_jupyter.protocol.sockets import READ_SOCKETS

DEFAULT_SECONDS: Final = 20
"""Seconds that a start command without a ready command is given."""

_SLEEP: Final = re.compile(r"\s*sleep\s+(\d{1,4})(?:\.\d+)?s?\s*\Z")
_EPHEMERAL: Final = 32768
"""The first port that the kernel may choose at random."""

_MAX_PORTS: Final = 8


def seconds_of(ready: str | None) -> int | None:
    """How many seconds a ready command sleeps; ``None`` if it does anything else."""
    if ready is None:
        return DEFAULT_SECONDS
    found = _SLEEP.match(ready)
    return None if found is None else int(found[1])


def opened_ports(before: set[int], after: set[int]) -> list[int]:
    """The ports that the start command opened and will open again.

    Empty when there are too many. Random ports are left out.
    """
    new = sorted(port for port in after - before if port < _EPHEMERAL)
    return new if len(new) <= _MAX_PORTS else []


def until_something_listens(before: set[int]) -> str:
    """A command that waits until a new port is open, at most the default time."""
    known = "|".join(["none", *(f"{port:04X}" for port in sorted(before))])
    look = f"grep ':0000 0A ' | grep -qvE ':({known}) [0-9A-F]*:0000 0A '"
    return _until(f"{{ {READ_SOCKETS}; }} | {look}", DEFAULT_SECONDS)


def until_ports_listen(ports: list[int], seconds: int) -> str:
    """A command that waits until all ports are open, at most ``seconds``."""
    looks = [f"{{ {READ_SOCKETS}; }} | grep -q ':{port:04X} [0-9A-F]*:0000 0A '" for port in ports]
    return _until(" && ".join(looks), seconds)


def _until(condition: str, seconds: int) -> str:
    return (
        f"end=$(($(date +%s) + {seconds})); "
        f'until {condition} || [ "$(date +%s)" -ge "$end" ]; do sleep 0.1; done'
    )
