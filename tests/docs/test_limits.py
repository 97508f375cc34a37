"""The tables of ``docs/limits.md`` say what the code says."""

from __future__ import annotations

from pathlib import Path

from sbx_jupyter.isolation import limits
from sbx_jupyter.isolation.limits import Provided, Word

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


def test_the_table_of_limits_is_that_of_the_code() -> None:
    _, _, rest = PAGE.read_text().partition("which tests/docs/test_limits.py compares. -->\n")
    table, _, _ = rest.partition("<!-- End of the generated part. -->")
    assert table == limits.to_markdown()


def test_each_word_is_explained() -> None:
    text = PAGE.read_text()
    for word in Word:
        assert f"| **{word}** |" in text


def test_every_machine_has_a_word_for_every_resource() -> None:
    groups = ("none", limits.CGROUP_V1, limits.CGROUP_V2)
    for group in groups:
        for disk in ("none", limits.BTRFS_QUOTA):
            provided = Provided(memory=group, cpu=group, pids=group, tcp=group, disk=disk)
            for namespaces, landlock in ((True, False), (False, True), (False, False)):
                holders = limits.find_holders(provided, namespaces=namespaces, landlock=landlock)
                assert holders.keys() == limits.MECHANISMS.keys() == limits.TITLES.keys()
                for resource, holder in holders.items():
                    assert holder in limits.MECHANISMS[resource], (resource, holder)


def test_what_nobody_knows_is_not_called_limited() -> None:
    assert limits.word_of("disk", "magic") == Word.NOT_LIMITED
    assert limits.word_of("magic", "cgroup v2") == Word.NOT_LIMITED
