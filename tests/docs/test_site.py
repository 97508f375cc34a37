"""The pages of the documentation site: generated ones, and links; ``make docs`` builds it."""

from __future__ import annotations

import contextlib
import http.server
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.docs.test_links import ROOT, broken_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def links() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "docs" / "site"), *sys.path])
        import links  # pyright: ignore[reportMissingImports]

    return links


@pytest.fixture
def server() -> Iterator[Callable[[int], str]]:
    """Starts a server that answers with a status; returns its address."""
    with contextlib.ExitStack() as running:

        def start(status: int) -> str:
            class Answer(http.server.BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(status)
                    self.end_headers()

                def log_message(self, format: str, *args: object) -> None:
                    pass

            made = running.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer))
            running.callback(made.shutdown)
            threading.Thread(target=made.serve_forever, daemon=True).start()
            return f"http://127.0.0.1:{made.server_port}/"

        yield start


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


def test_links_outside_have_a_sound_form(pages: Path, links: ModuleType) -> None:
    found = links.links_of([ROOT / "README.md", *pages.glob("*.md")])

    assert found
    assert {address: links.fault_of(address) for address in found} == dict.fromkeys(found, "")


@pytest.mark.parametrize(
    "address",
    [
        "http://docs.python.org/3/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://api.example.com/",
        "https://pypi.org:8080/",
        "https://someone@pypi.org/",
        "https://pypi.org/project/e2b/,",
        "https://pypi.org/<name>",
        "https://[pypi.org/",
    ],
)
def test_a_fault_of_form_is_told(links: ModuleType, address: str) -> None:
    assert links.fault_of(address)


def test_what_cannot_be_reached_is_not_called_broken(
    links: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "[a](https://no-such-host.sbx-jupyter-tests.dev/x) and `[b](https://pypi.org/)`\n"
    (tmp_path / "page.md").write_text(page)

    assert links.report([tmp_path / "page.md"]) == 0

    said = capsys.readouterr().out
    assert "(page.md): not reached: " in said
    assert "1 addresses: 0 wrong, 1 not reached" in said


@pytest.mark.parametrize(("status", "code"), [(200, 0), (404, 1)])
def test_an_address_that_answers_is_sound_or_broken(
    links: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: Callable[[int], str],
    status: int,
    code: int,
) -> None:
    monkeypatch.setattr(links, "fault_of", lambda address: "")  # it is no public name
    (tmp_path / "page.md").write_text(f"[here]({server(status)})\n")

    assert links.report([tmp_path / "page.md"]) == code


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
