"""Test that the page about system calls says what the filters do."""

from __future__ import annotations

from tests.docs.system_calls import PAGE, page


def test_the_page_about_system_calls_is_written_from_the_filters() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.system_calls"
