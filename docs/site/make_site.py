"""Builds the documentation site: ``python docs/site/make_site.py [FOLDER]``, else ``build/docs``.

With ``--links`` it looks up the addresses outside that the pages link to instead (``links``).

The pages of the repository are read as they are. They are copied beside the generated pages of the
reference; links to files outside of ``docs`` become plain text, and a page whose name is in
``SECTIONS`` gets the pages that it links to below it in the navigation. Pages without such a link
are added to the reference.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generated
import links

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("index.md", "how-to.md", "reference.md", "explanation.md")
OF_THE_REPOSITORY = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Pages of the root folder that the site has as well."""

MARK = "<!-- The site lists its generated pages here. -->\n"

OUTSIDE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=.https?:[^>]*>")
"""Tags that make a browser load something from elsewhere."""

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def stage(folder: Path) -> None:
    """Write all pages of the site to ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in OF_THE_REPOSITORY)]
    written = generated.pages()
    shown = ROOT / "docs" / "pictures"
    pictures = [*shown.glob("*.png"), *shown.glob("*.svg")]
    known = {file.name for file in (*sources, *pictures)} | set(written)
    listed = "\n".join(f"- [{title_of(text)}]({name})" for name, text in written.items())
    texts = {
        page.name: with_known_links(page.read_text().replace(MARK, listed), known)
        for page in sources
    }
    contents = {name: linked_from(texts[name]) for name in SECTIONS}
    found = {"index", *(page for pages in contents.values() for page in pages)}
    pages = {Path(name).stem for name in known if name.endswith(".md")}
    contents["reference.md"] += sorted(pages - found)
    for name, text in texts.items():
        (folder / name).write_text(text + navigation(contents.get(name, [])))
    for name, text in written.items():
        (folder / name).write_text(text)
    for file in (ROOT / "docs" / "site" / "conf.py", *pictures):
        shutil.copy(file, folder)


def with_known_links(text: str, known: set[str]) -> str:
    """Replace links to what the site does not have by their text."""

    def replaced(link: re.Match[str]) -> str:
        target, mark, anchor = link[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link[0]
        name = target.rpartition("/")[2]
        return f"[{link[1]}]({name}{mark}{anchor})" if name in known else link[1]

    return LINK.sub(replaced, text)


def title_of(page: str) -> str:
    """The first heading of a page."""
    return page.partition("\n")[0].removeprefix("# ")


def linked_from(text: str) -> list[str]:
    """The names of the pages to which a page links, in their order."""
    return list(dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md\)", text)))


def navigation(pages: list[str]) -> str:
    """The part of a page that puts others below it in the navigation."""
    if not pages:
        return ""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def loaded_from_outside(html: Path) -> list[str]:
    """What pages of the built site would load from a network; links are not loaded."""
    return [
        f"{page.relative_to(html)}: {tag}"
        for page in sorted(html.rglob("*.html"))
        for tag in OUTSIDE.findall(page.read_text())
        if 'rel="canonical"' not in tag
    ]


def main(folder: Path) -> int:
    """Build the site; warnings are errors. Returns the exit code of Sphinx.

    It is 1 as well where a page would load something from a network, and so not work without one.
    """
    from sphinx.cmd.build import build_main

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    os.environ["SBX_VERSION"] = project["version"]
    stage(folder / "pages")
    options = ["-W", "--keep-going", "-q", "-j", "auto", "-d", str(folder / "cache")]
    html = folder / "html"
    if status := build_main(["-b", "html", *options, str(folder / "pages"), str(html)]):
        return status
    outside = loaded_from_outside(html)
    if outside or not (html / "searchindex.js").is_file():
        print("not offline:", *outside, "or no index to search in", sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--links"]
    place = Path(arguments[0]) if arguments else ROOT / "build" / "docs"
    if "--links" in sys.argv:
        stage(place / "pages")
        sys.exit(links.report([ROOT / "README.md", *sorted((place / "pages").glob("*.md"))]))
    sys.exit(main(place))
