"""The list of the engine's processes, as people read it."""

from __future__ import annotations

from sbx_jupyter.cli.processes import _described, _in_words
from sbx_jupyter.isolation.privileges import CAPABILITIES, Privileges


def test_many_capabilities_are_told_by_what_is_lacking() -> None:
    assert _in_words(CAPABILITIES) == "all"
    assert _in_words(CAPABILITIES[1:]) == "all but chown"
    assert _in_words(CAPABILITIES[:2]) == "chown dac_override"
    assert _in_words(()) == "none"


def test_a_process_is_described_in_five_lines() -> None:
    process = Privileges(
        9, 8, "agent", (1, 2, 3, 4), (5, 6, 7, 8), ("kill",), (), True, 2, ("net",)
    )

    assert _described(process).splitlines() == [
        "agent (process 9, child of 8)",
        "  user 2, group 6",
        "  capabilities: kill",
        "  no new privileges: yes; system call filters: 2",
        "  own namespaces: net",
    ]
