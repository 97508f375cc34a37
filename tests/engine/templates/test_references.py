"""Template references: parsed, normalised, resolved."""

from __future__ import annotations

import pytest

from sbx_jupyter.engine.templates.references import Reference, full_name, parse_reference, parse_tag
from sbx_jupyter.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("base", Reference(None, "base", None)),
        ("  Base ", Reference(None, "base", None)),
        ("local/base", Reference("local", "base", None)),
        ("base:v1.2-x_y", Reference(None, "base", "v1.2-x_y")),
        ("base:default", Reference(None, "base", None)),
        ("team/a-b_c:TAG", Reference("team", "a-b_c", "tag")),
    ],
)
def test_a_reference_is_taken_apart(text: str, expected: Reference):
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a b",
        "a/b/c",
        "/a",
        "a/",
        "a:",
        "a:b:c",
        "ä",
        "a:b/c",
        "../x",
        "a\nb",
        "a" * 129,
        "base:0b06b8ff-6b3f-4d6c-9a62-3f6d2a2b4c11",
    ],
)
def test_a_malformed_reference_is_refused(text: str):
    with pytest.raises(InvalidArgumentError, match="Invalid template reference: "):
        parse_reference(text)


def test_a_tag_that_looks_like_a_build_is_refused():
    with pytest.raises(InvalidArgumentError, match="Invalid tag"):
        parse_tag("0B06B8FF-6b3f-4d6c-9a62-3f6d2a2b4c11")


def test_the_full_name_has_namespace_and_tag():
    assert full_name("mine") == "local/mine"
    assert full_name("mine", "v1") == "local/mine:v1"
