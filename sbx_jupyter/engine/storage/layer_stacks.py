"""Stacks of layers, topmost first, and the merged layers that replace parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbx_jupyter.engine.state.rows import MergeRow
    from sbx_jupyter.engine.state.store import Store

Stack = tuple[str, ...]

TOO_MANY: Final = 20
"""A stack with this many layers or more is shortened."""

_LEAST: Final = 8
"""The least number of layers in a merge, so that merges are rare."""

_FEW_BYTES: Final = 1 << 20
"""A layer up to this size is always worth copying."""


def find_run(stack: Stack, run: Stack) -> int:
    """The index of a run of layers in a stack; -1 if it is not there."""
    start = -1
    while run[0] in stack[start + 1 :]:
        start = stack.index(run[0], start + 1)
        if stack[start : start + len(run)] == run:
            return start
    return -1


def replace_run(stack: Stack, merge: MergeRow) -> Stack:
    """The stack with a merged layer in place of the layers that it was made of."""
    start = find_run(stack, merge.layers)
    if start < 0:
        return stack
    return (*stack[:start], merge.key, *stack[start + len(merge.layers) :])


def shorten(stack: Stack, merges: Iterable[MergeRow]) -> Stack:
    """Replace as many layers as possible by merged ones."""
    return _shorten(stack, _longest_first(merges), set())


def _shorten(stack: Stack, merges: Sequence[MergeRow], applied: set[str]) -> Stack:
    while True:
        before = stack
        for merge in merges:
            stack = replace_run(before, merge)
            if stack != before:
                applied.add(merge.key)
                break
        if stack == before:
            return stack


def _longest_first(merges: Iterable[MergeRow]) -> list[MergeRow]:
    return sorted(merges, key=lambda merge: len(merge.layers), reverse=True)


def choose_run(stack: Stack, sizes: Sequence[int]) -> Stack:
    """Choose the layers of a long stack to merge: from the top down to the first large one.

    A layer more than twice as large as all above it is not copied. So the number of times that a
    byte is copied grows only with the logarithm of the number of layers ever made.
    """
    count = min(_LEAST, len(stack))
    above = sum(sizes[:count])
    while count < len(stack) and sizes[count] <= 2 * above + _FEW_BYTES:
        above += sizes[count]
        count += 1
    return stack[:count]


def used_merges(store: Store) -> set[str]:
    """The merged layers that replace layers of some row."""
    merges = _longest_first(store.merges)
    firsts = {merge.layers[0] for merge in merges}
    used: set[str] = set()
    for stack in stacks_of(store):
        if not firsts.isdisjoint(stack):
            _shorten(stack, merges, used)
    return used


def with_merges(stack: Stack, merges: Iterable[MergeRow]) -> set[str]:
    """The layers of a stack, and the merged layers that replace some of them."""
    applied: set[str] = set()
    _shorten(stack, _longest_first(merges), applied)
    return applied.union(stack)


def stacks_of(store: Store) -> list[Stack]:
    """The stacks of all rows."""
    rows = (*store.sandboxes, *store.builds, *store.images)
    return [row.layers for row in rows] + [(*row.layers, *row.below) for row in store.steps]
