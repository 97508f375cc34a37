"""No test asks over HTTP with httpx's own limit, which is too short for a busy machine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

ASKING = {
    "AsyncClient", "Client", "delete", "get", "head", "options", "patch", "post", "put", "request",
    "stream",
}  # fmt: skip
"""What of httpx takes a limit, and has one of five seconds if it is given none."""


def untimed_calls(source: str) -> list[int]:
    """The lines of a text that call httpx without a limit, by whatever name it was imported."""
    tree = ast.parse(source)
    modules: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or each.name for each in node.names if each.name == "httpx"}
        elif isinstance(node, ast.ImportFrom) and node.module == "httpx":
            names |= {each.asname or each.name for each in node.names if each.name in ASKING}

    def asks(function: ast.expr) -> bool:
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return function.value.id in modules and function.attr in ASKING
        return isinstance(function, ast.Name) and function.id in names

    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and asks(node.func)
        and "timeout" not in {keyword.arg for keyword in node.keywords}
    ]


def test_no_test_relies_on_the_default_limit_of_httpx():
    texts = {
        path.relative_to(TESTS): text
        for path in TESTS.rglob("*.py")
        if "node_modules" not in path.parts and "httpx" in (text := path.read_text())
    }

    found = [f"{path}:{line}" for path, text in texts.items() for line in untimed_calls(text)]

    assert found == []
    assert len(texts) > 50


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import httpx\nhttpx.get('/')", [2]),
        ("import httpx\nwith httpx.Client(trust_env=False) as c:\n    c.get('/')", [2]),
        ("import httpx\nwith httpx.Client(timeout=60) as c:\n    c.get('/')", []),
        ("import httpx\nhttpx.request('GET', '/', **options)", [2]),
        ("import httpx as h\nh.stream('GET', '/')", [2]),
        ("from httpx import AsyncClient as A, Response\nA()\nResponse(200)", [2]),
        ("import httpx\nhttpx.Response(200)\nhttpx.URL('/')", []),
        ("requests.get('/')", []),
    ],
)
def test_a_call_without_a_limit_is_found(source: str, lines: list[int]):
    assert untimed_calls(source) == lines
