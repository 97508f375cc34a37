"""Builds the documentation site: ``python docs/site/make_site.py [FOLDER]``, else ``build/docs``.

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

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("index.md", "how-to.md", "reference.md", "explanation.md")
OF_THE_REPOSITORY = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Pages of the root folder that the site has as well."""

MARK = "<!-- The site lists its generated pages here. -->\n"

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def stage(folder: Path) -> None:
    """Write all pages of the site to ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in OF_THE_REPOSITORY)]
    written = generated.pages()
    pictures = list((ROOT / "docs" / "pictures").glob("*.png"))
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


def main(folder: Path) -> int:
    """Build the site; warnings are errors. Returns the exit code of Sphinx."""
    from sphinx.cmd.build import build_main

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    os.environ["SBX_VERSION"] = project["version"]
    stage(folder / "pages")
    options = ["-b", "html", "-W", "--keep-going", "-q", "-j", "auto", "-d", str(folder / "cache")]
    return build_main([*options, str(folder / "pages"), str(folder / "html")])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs")))
