"""Classic BPF for system call filters: the instructions, and what filters are made of.

A filter is a decision tree over the number of the call. Its leaves are rules: instructions that end
with an answer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Rule = tuple[bytes, ...]
"""The instructions for one call; they do not rely on the content of the accumulator."""

ALLOWED: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
"""Leaves the answer to the holder of the filter's listener."""
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
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
_FARTHEST: Final = 255
"""The most instructions that a conditional jump can skip."""


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def answer(action: int) -> Rule:
    """The same answer every time."""
    return (op(RETURN, action),)


ALLOW: Final = answer(ALLOWED)


def unless_flags(argument: int, mask: int, action: int) -> Rule:
    """``action`` when an argument has any bit of ``mask``; allowed otherwise."""
    return (_load(argument), op(JUMP_SET, mask, 0, 1), op(RETURN, action), *ALLOW)


def unless_in(argument: int, values: Iterable[int], action: int) -> Rule:
    """``action`` when the lower half of an argument is one of ``values``; allowed otherwise."""
    return (_load(argument), *_when_in(list(values), action), *ALLOW)


def only_in(argument: int, values: Iterable[int], action: int, then: Rule = ALLOW) -> Rule:
    """``action`` unless the lower half of an argument is one of ``values``; ``then`` otherwise."""
    accepted = list(values)
    tests = [
        op(JUMP_EQUAL, value, len(accepted) - index, 0) for index, value in enumerate(accepted)
    ]
    return (_load(argument), *tests, op(RETURN, action), *then)


def only_masked(argument: int, mask: int, value: int, action: int) -> Rule:
    """``action`` unless the masked lower half of an argument is ``value``; allowed otherwise."""
    return (
        _load(argument), op(AND, mask), op(JUMP_EQUAL, value, 1, 0), op(RETURN, action), *ALLOW
    )  # fmt: skip


def by_value(argument: int, rules: Mapping[int, Rule], otherwise: Rule = ALLOW) -> Rule:
    """The rule for the lower half of an argument; ``otherwise`` for a value without one."""
    code = [_load(argument)]
    for value, rule in rules.items():
        code += [op(JUMP_EQUAL, value, 0, len(rule)), *rule]
    return (*code, *otherwise)


def unless_pointer(argument: int, action: int) -> Rule:
    """``action`` when an argument is no null pointer; allowed otherwise."""
    return (
        _load(argument), op(JUMP_EQUAL, 0, 1, 0), op(RETURN, action),
        _load(argument, 4), op(JUMP_EQUAL, 0, 1, 0), op(RETURN, action),
        *ALLOW,
    )  # fmt: skip


def unless_masked(
    argument: int, mask: int, values: Iterable[int], but: Iterable[int], action: int
) -> Rule:
    """``action`` when an argument is in a family of values and no exception; else allowed."""
    exceptions = _when_in(list(but), ALLOWED)
    return (
        _load(argument), *exceptions, op(AND, mask), *_when_in(list(values), action), *ALLOW
    )  # fmt: skip


def program(architecture: int, rules: Mapping[int, Rule], otherwise: Rule) -> bytes:
    """A filter: each numbered call has its rule, every other number ``otherwise``.

    Calls of another architecture kill the process.
    """
    starts: list[tuple[int, Rule]] = [(0, otherwise)]
    for number, rule in sorted(rules.items()):
        if starts[-1][0] == number:
            starts.pop()
        if not starts or starts[-1][1] != rule:
            starts.append((number, rule))
        starts.append((number + 1, otherwise))
    merged = [starts[0]]
    for start in starts[1:]:
        if start[1] != merged[-1][1]:
            merged.append(start)
    return b"".join(
        [
            op(LOAD, _ARCHITECTURE),
            op(JUMP_EQUAL, architecture, 1, 0),
            op(RETURN, KILL_PROCESS),
            op(LOAD, _NUMBER),
            *_tree(merged),
        ]
    )


def _tree(starts: Sequence[tuple[int, Rule]]) -> list[bytes]:
    """Find the last start that is not above the number, in as few comparisons as can be."""
    if len(starts) == 1:
        return list(starts[0][1])
    middle = len(starts) // 2
    low, high = _tree(starts[:middle]), _tree(starts[middle:])
    if len(low) <= _FARTHEST:
        return [op(JUMP_GREATER_EQUAL, starts[middle][0], len(low), 0), *low, *high]
    jump = [op(JUMP_GREATER_EQUAL, starts[middle][0], 0, 1), op(JUMP, len(low))]
    return [*jump, *low, *high]


def _load(argument: int, half: int = 0) -> bytes:
    return op(LOAD, _ARGUMENTS + 8 * argument + half)


def _when_in(values: list[int], action: int) -> list[bytes]:
    code = [op(JUMP_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*code, op(JUMP, 1), op(RETURN, action)] if code else []
