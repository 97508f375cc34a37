"""Stacks of layers, topmost first, and the merged layers that stand for parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbx_jupyter.engine.state.rows import MergeRow
    from sbx_jupyter.engine.state.store import Store

Stack = tuple[str, ...]

TOO_MANY: Final = 20
"""Layers from which on a stack is made shorter."""

_LEAST: Final = 8
"""Layers that are merged at least, so that not every other snapshot makes it necessary again."""

_FEW_BYTES: Final = 1 << 20
"""What is copied without a thought, however little lies on it."""


def find_run(stack: Stack, run: Stack) -> int:
    """Where a stack has a run of layers; -1 where it does not."""
    start = -1
    while run[0] in stack[start + 1 :]:
        start = stack.index(run[0], start + 1)
        if stack[start : start + len(run)] == run:
            return start
    return -1


def replace_run(stack: Stack, merge: MergeRow) -> Stack:
    """The stack with a merged layer instead of what it was made of."""
    start = find_run(stack, merge.layers)
    if start < 0:
        return stack
    return (*stack[:start], merge.key, *stack[start + len(merge.layers) :])


def shorten(stack: Stack, merges: Iterable[MergeRow]) -> Stack:
    """A stack that shows the same with as few layers as are known."""
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
    """Which layers of a long stack to make one: from the top, as long as it is worth the copying.

    A layer that is much larger than all above it stays as it is. So every byte is copied a number
    of times that grows with the logarithm of how many layers there ever were, and no more.
    """
    count = min(_LEAST, len(stack))
    above = sum(sizes[:count])
    while count < len(stack) and sizes[count] <= 2 * above + _FEW_BYTES:
        above += sizes[count]
        count += 1
    return stack[:count]


def used_merges(store: Store) -> set[str]:
    """The merged layers that stand for layers of some row."""
    merges = _longest_first(store.merges)
    firsts = {merge.layers[0] for merge in merges}
    used: set[str] = set()
    for stack in stacks_of(store):
        if not firsts.isdisjoint(stack):
            _shorten(stack, merges, used)
    return used


def with_merges(stack: Stack, merges: Iterable[MergeRow]) -> set[str]:
    """The layers of a stack, and those that stand for some of them."""
    applied: set[str] = set()
    _shorten(stack, _longest_first(merges), applied)
    return applied.union(stack)


def stacks_of(store: Store) -> list[Stack]:
    """The layers that some row stands on."""
    rows = (*store.sandboxes, *store.builds, *store.images)
    return [row.layers for row in rows] + [(*row.layers, *row.below) for row in store.steps]
