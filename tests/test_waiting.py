"""Tests of ``tests.waiting``."""

from __future__ import annotations

import pytest

from tests.waiting import async_until, until, until_equal, until_steady


def test_it_gives_back_the_first_true_answer() -> None:
    answers = iter([0, "", None, "here", "later"])

    assert until(lambda: next(answers), step=0) == "here"


def test_it_fails_with_the_message_and_the_last_answer() -> None:
    with pytest.raises(AssertionError, match=r"no page within 0\.01 s; the last answer was \[\]"):
        until(list, timeout=0.01, message="no page")


def test_a_value_that_never_comes_fails_with_the_last_one_read() -> None:
    readings = iter([1, 2, 3])
    until_equal(lambda: next(readings), 3, step=0)

    with pytest.raises(AssertionError, match=r"the last answer was \{'mounts': 2\}"):
        until_equal(lambda: {"mounts": 2}, {}, timeout=0.01)


def test_a_number_is_steady_when_it_came_five_times_and_is_not_0() -> None:
    readings = iter([0, 0, 0, 0, 0, 1, 3, 3, 3, 3, 3, 4])

    assert until_steady(lambda: next(readings), step=0) == 3
    assert next(readings) == 4


async def test_an_asynchronous_condition_is_awaited() -> None:
    answers = iter([False, False, 7])

    async def ask() -> int:
        return next(answers)

    assert await async_until(ask) == 7


async def test_a_condition_on_the_loop_fails_alike() -> None:
    with pytest.raises(AssertionError, match="the last answer was None"):
        await async_until(lambda: None, timeout=0.01)
