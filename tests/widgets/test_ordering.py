"""Messages in their sender's order, whatever the threads did to them."""

from __future__ import annotations

import random
import threading

import pytest

from sbx_jupyter.widgets.ordering import MAX_EARLY, MAX_SENDERS, Resequencer


@pytest.fixture
def delivered():
    return []


@pytest.fixture
def inbox(delivered):
    return Resequencer(delivered.append)


def test_messages_in_order_go_straight_through(inbox, delivered):
    for number in range(3):
        inbox.receive("view", number, number)

    assert delivered == [0, 1, 2]


def test_an_early_message_waits_for_the_ones_before_it(inbox, delivered):
    inbox.receive("view", 1, "second")
    assert delivered == []

    inbox.receive("view", 0, "first")

    assert delivered == ["first", "second"]


def test_a_message_is_delivered_once(inbox, delivered):
    for _ in range(2):
        inbox.receive("view", 0, "first")

    assert delivered == ["first"]


def test_two_views_do_not_wait_for_each_other(inbox, delivered):
    inbox.receive("one", 1, "early")
    inbox.receive("two", 0, "on time")

    assert delivered == ["on time"]


def test_a_lost_message_is_given_up_after_many_others(inbox, delivered):
    for number in range(1, MAX_EARLY + 2):
        inbox.receive("view", number, number)

    assert delivered == list(range(1, MAX_EARLY + 2))


def test_views_that_were_closed_long_ago_are_forgotten(inbox):
    for number in range(3 * MAX_SENDERS):
        inbox.receive(f"view {number}", 0, None)

    assert len(inbox._senders) == MAX_SENDERS


def test_two_threads_that_deliver_one_view_keep_its_order(inbox, delivered):
    numbers = list(range(2000))
    halves = numbers[::2], numbers[1::2]

    def deliver(half):
        for number in half:
            if random.random() < 0.05:
                threading.Event().wait(0.0001)
            inbox.receive("view", number, number)

    threads = [threading.Thread(target=deliver, args=[half]) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # No more than MAX_EARLY may be early; each half is exactly that many.
    assert delivered == numbers
