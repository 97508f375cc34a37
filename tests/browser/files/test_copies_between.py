"""Files copied between JupyterLab's own browser, sandboxes and the panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long


@pytest.fixture
def folder(server: JupyterServer) -> Iterator[str]:
    """A folder of notebook files with a folder in it."""
    folder = server.root / "to copy"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"of the notebooks")
    (folder / "deep" / "b.bin").write_bytes(bytes(range(256)))
    yield folder.name
    for path in (folder / "deep" / "b.bin", folder / "a.txt"):
        path.unlink()


def drag(lab: Lab, source: Locator, target: Locator) -> None:
    """Drag slowly enough for JupyterLab to see that it is a drag."""
    source.hover()
    lab.page.mouse.down()
    box = target.bounding_box()
    assert box is not None
    for part in (0.5, 0.9, 1):
        x, y = box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5 * part
        lab.page.mouse.move(x, y, steps=5)
    expect(lab.page.locator(".sbx-mod-dropTarget")).to_be_visible()
    lab.page.mouse.up()


def own_files(lab: Lab) -> Locator:
    """JupyterLab's own browser, on the right so that both sides are seen at once."""
    move_own_files(lab, "right")
    return lab.page.locator("#filebrowser")


def move_own_files(lab: Lab, area: str) -> None:
    lab.page.evaluate(
        """area => {
          const { shell } = jupyterapp;
          const widgets = [...shell.widgets('left'), ...shell.widgets('right')];
          shell.add(widgets.find(({ id }) => id === 'filebrowser'), area, { rank: 100 });
          shell.activateById('filebrowser');
        }""",
        area,
    )


def item(files: Locator, name: str) -> Locator:
    return files.locator(".jp-DirListing-item", has_text=name)


def test_files_are_dragged_and_pasted_between_notebooks_and_sandboxes(
    lab: Lab, sandbox: str, server: JupyterServer, folder: str
):
    files = own_files(lab)
    item(files, folder).wait_for()

    drag(lab, item(files, folder), lab.row("workbench"))
    server.wait_for(sandbox, f"/home/user/{folder}/deep/b.bin", bytes(range(256)))
    server.wait_for(sandbox, f"/home/user/{folder}/a.txt", b"of the notebooks")

    lab.execute("sbx:browse-files", sandbox=sandbox, path=f"/home/user/{folder}")
    inside = lab.page.locator("#sbx-files")
    item(inside, "a.txt").click()
    lab.page.keyboard.press("Control+c")
    item(files, folder).dblclick()
    item(files, "a.txt").click()
    lab.page.keyboard.press("Control+v")
    dialog = lab.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("There is a file of this name")
    dialog.get_by_role("button", name="Keep both").click()

    expect(item(files, "a-Copy1.txt")).to_be_visible()
    copy = server.root / folder / "a-Copy1.txt"
    assert copy.read_bytes() == b"of the notebooks"
    copy.unlink()
    move_own_files(lab, "left")
