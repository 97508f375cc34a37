"""Classic BPF for system call filters: the instructions, and what filters are made of.

Every piece expects the number of the call in the accumulator and leaves it there.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Numbers = tuple[int | None, int | None]
"""The number of a call on x86-64 and on AArch64; None where the machine does not have it."""

ALLOW: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
"""Whoever holds the filter's listener answers."""
ERRNO: Final = 0x00050000
KILL_PROCESS: Final = 0x80000000

LOAD: Final = 0x20
JUMP: Final = 0x05
JUMP_EQUAL: Final = 0x15
JUMP_GREATER_EQUAL: Final = 0x35
JUMP_SET: Final = 0x45
AND: Final = 0x54
RETURN: Final = 0x06

_NUMBER: Final = 0
_ARGUMENTS: Final = 16


def here(numbers: Numbers) -> int:
    """The number on this machine. Raises ``KeyError`` where it has none."""
    value = numbers[0 if syscalls.X86_64 else 1]
    if value is None:
        raise KeyError(numbers)
    return value


def all_here(table: Mapping[str, Numbers]) -> list[int]:
    """The numbers of those calls of a table that this machine has."""
    column = 0 if syscalls.X86_64 else 1
    return sorted(value for row in table.values() if (value := row[column]) is not None)


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def load_number() -> bytes:
    """Bring the number of the call into the accumulator."""
    return op(LOAD, _NUMBER)


def when_flags(nr: int, argument: int, mask: int, action: int) -> list[bytes]:
    """``action`` when an argument of call ``nr`` has any bit of ``mask``."""
    return _when(nr, argument, [op(JUMP_SET, mask, 0, 1), op(RETURN, action)])


def when_equal(nr: int, argument: int, value: int, action: int) -> list[bytes]:
    """``action`` when the lower half of an argument of call ``nr`` is ``value``."""
    return _when(nr, argument, [op(JUMP_EQUAL, value, 0, 1), op(RETURN, action)])


def when_not_equal(nr: int, argument: int, value: int, action: int) -> list[bytes]:
    """``action`` when the lower half of an argument of call ``nr`` is anything else."""
    return _when(nr, argument, [op(JUMP_EQUAL, value, 1, 0), op(RETURN, action)])


def when_pointer(nr: int, argument: int, action: int) -> list[bytes]:
    """``action`` when an argument of call ``nr`` is no null pointer."""
    test: list[bytes] = []
    for half in (0, 4):
        test += [
            op(LOAD, _ARGUMENTS + 8 * argument + half),
            op(JUMP_EQUAL, 0, 1, 0),
            op(RETURN, action),
        ]
    return [op(JUMP_EQUAL, nr, 0, len(test) + 1), *test, load_number()]


def when_masked(
    nr: int, argument: int, mask: int, values: Iterable[int], but: Iterable[int], action: int
) -> list[bytes]:
    """``action`` when an argument of call ``nr`` is in a family of values and no exception."""
    test: list[bytes] = []
    for value in but:
        test += [op(JUMP_EQUAL, value, 0, 1), op(RETURN, ALLOW)]
    test.append(op(AND, mask))
    for value in values:
        test += [op(JUMP_EQUAL, value, 0, 1), op(RETURN, action)]
    return _when(nr, argument, test)


def when_in(numbers: list[int], action: int) -> list[bytes]:
    """``action`` for each of the numbers; a jump reaches 255 instructions."""
    code = [op(JUMP_EQUAL, nr, len(numbers) - index, 0) for index, nr in enumerate(numbers)]
    return [*code, op(JUMP, 1), op(RETURN, action)]


def _when(nr: int, argument: int, test: list[bytes]) -> list[bytes]:
    load = op(LOAD, _ARGUMENTS + 8 * argument)
    return [op(JUMP_EQUAL, nr, 0, len(test) + 2), load, *test, load_number()]
