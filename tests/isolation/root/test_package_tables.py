"""What a sandbox's apt gets of the host's sources of packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.isolation.root import package_tables

if TYPE_CHECKING:
    from pathlib import Path


def test_sources_with_a_password_stay_outside(tmp_path: Path) -> None:
    folder = tmp_path / "etc/apt/sources.list.d"
    folder.mkdir(parents=True)
    texts = {
        "open.list": "deb http://deb.example.org stable main\n",
        "new.sources": "URIs: https://deb.example.org\n",
        "private.list": "deb https://ann:secret@deb.example.org stable main\n",
        "new-private.sources": "URIs:\n https://token@deb.example.org\n",
        "off.list.disabled": "deb http://old.example.org stable main\n",
        "closed.list": "deb http://inner.example.org stable main\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "closed.list").chmod(0o600)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://main.example.org stable main\n")

    found = package_tables.sources(tmp_path)

    assert set(found) == {
        "etc/apt/sources.list",
        "etc/apt/sources.list.d/open.list",
        "etc/apt/sources.list.d/new.sources",
    }
