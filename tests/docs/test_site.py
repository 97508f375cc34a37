"""The pages of the documentation site: generated ones, and links; ``make docs`` builds it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.test_links import ROOT, broken_links

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "docs" / "site"), *sys.path])
        from make_site import stage  # pyright: ignore[reportMissingImports]

        stage(folder)
    return folder


def test_links_within_the_site_lead_somewhere(pages: Path) -> None:
    broken = {page.name: broken_links(page, page.read_text()) for page in pages.glob("*.md")}

    assert {name: links for name, links in broken.items() if links} == {}


def test_each_page_is_in_the_navigation(pages: Path) -> None:
    sections = ("index.md", "how-to.md", "reference.md", "explanation.md")
    listed = {line for name in sections for line in (pages / name).read_text().splitlines()}

    assert {page.stem for page in pages.glob("*.md")} - listed == {"index"}


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("settings.md", "### `c.SbxEngine.max_builds`"),
        ("settings.md", "### `c.SbxExtension.stop_with_server`"),
        ("command-line.md", "## `jupyter sbx template build`"),
        ("magics-reference.md", "## `%sbx checkpoint`"),
        ("rest.md", "## `POST /sandboxes`"),
        ("python.md", "- **`fork(count=1, timeout="),
    ],
)
def test_the_reference_is_made_from_the_code(pages: Path, page: str, part: str) -> None:
    assert part in (pages / page).read_text()
