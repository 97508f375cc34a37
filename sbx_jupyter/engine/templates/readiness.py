"""When a start command is ready, where nobody said it (interface 7.4).

A ready command that only sleeps says nothing about the sandbox: it gives the start command time
before the moment that sandboxes begin with. Here each sandbox runs the start command anew, so the
same wait would be paid at each creation. What a build sees the start command listen on takes its
place: never a longer wait, and never a failure.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_SECONDS: Final = 20
"""How long a start command without a ready command is given."""

READ_SOCKETS: Final = "cat /proc/net/tcp /proc/net/tcp6 2> /dev/null || true"

_SLEEP: Final = re.compile(r"\s*sleep\s+(\d{1,4})(?:\.\d+)?s?\s*\Z")
_LISTENING: Final = re.compile(r":([0-9A-F]{4}) [0-9A-F]+:0000 0A ")
_EPHEMERAL: Final = 32768
"""From here on the kernel chooses, each time anew."""

_MAX_PORTS: Final = 8


def seconds_of(ready: str | None) -> int | None:
    """How long a ready command waits that does nothing else; ``None`` for a real one."""
    if ready is None:
        return DEFAULT_SECONDS
    found = _SLEEP.match(ready)
    return None if found is None else int(found[1])


def listening(sockets: str) -> set[int]:
    """The ports that something listens on, by the kernel's tables of TCP sockets."""
    return {int(port, 16) for port in _LISTENING.findall(sockets)}


def learnt(before: set[int], after: set[int]) -> list[int]:
    """The ports that the start command opened and will open again."""
    new = sorted(port for port in after - before if port < _EPHEMERAL)
    return new if len(new) <= _MAX_PORTS else []


def until_something_listens(before: set[int]) -> str:
    """A command that ends when a port is open that was not, or after the default time."""
    known = "|".join(["none", *(f"{port:04X}" for port in sorted(before))])
    look = f"grep ':0000 0A ' | grep -qvE ':({known}) [0-9A-F]*:0000 0A '"
    return _until(f"{{ {READ_SOCKETS}; }} | {look}", DEFAULT_SECONDS)


def until_ports_listen(ports: list[int], seconds: int) -> str:
    """A command that ends when all ports are open, or after that time."""
    looks = [f"{{ {READ_SOCKETS}; }} | grep -q ':{port:04X} [0-9A-F]*:0000 0A '" for port in ports]
    return _until(" && ".join(looks), seconds)


def _until(condition: str, seconds: int) -> str:
    return (
        f"end=$(($(date +%s) + {seconds})); "
        f'until {condition} || [ "$(date +%s)" -ge "$end" ]; do sleep 0.1; done'
    )
