"""The pages of the documentation through the Jupyter server."""

from __future__ import annotations

import pytest

from sbx_jupyter.display.documentation import find_pages, find_pictures


async def test_pages_are_listed_and_read(api):
    _, listed = await api("GET", "help")
    _, page = await api("GET", "help", "storage")

    assert {each["name"] for each in listed["pages"]} == set(find_pages())
    titles = {each["name"]: each["title"] for each in listed["pages"]}
    assert page["text"].startswith(f"# {titles['storage']}\n")


@pytest.mark.parametrize("kind", [".png", ".svg"])
async def test_a_picture_is_sent_with_its_kind(jp_fetch, kind):
    name = next(name for name in find_pictures() if name.endswith(kind))

    answer = await jp_fetch("sbx", "api", "help", "pictures", name)

    assert answer.headers["content-type"] == {".png": "image/png", ".svg": "image/svg+xml"}[kind]
    assert answer.body == find_pictures()[name].read_bytes()
    # A picture that is opened by itself runs nothing.
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", [("none",), ("pictures", "none.png"), ("pictures", "..")])
async def test_what_is_not_there_is_not_found(api, path):
    status, _ = await api("GET", "help", *path)

    assert status == 404


async def test_what_lies_beside_the_pages_is_not_found(api):
    for path in ("performance.json", "site%2Fconf.py", "pictures/..%2fstorage.md"):
        status, _ = await api("GET", "help", *path.split("/"))
        assert status == 404, path
