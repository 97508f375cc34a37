"""A sandbox's files in JupyterLab's own file browser and editor."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

HOSTILE = "<img src=x onerror=alert(1)>.txt"


@pytest.fixture
def browser_of_files(lab: Lab, sandbox: str, server: JupyterServer) -> Locator:
    server.write(sandbox, "/home/user/notes.txt", b"first\n")
    server.write(sandbox, f"/home/user/{HOSTILE}", b"")
    row = lab.row("workbench")
    row.hover()
    row.get_by_label("Browse files").click()
    files = lab.page.locator("#sbx-files")
    item(files, "notes.txt").wait_for()
    return files


def item(files: Locator, name: str) -> Locator:
    return files.locator(".jp-DirListing-item", has_text=name)


def test_a_file_is_opened_edited_and_saved(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    item(browser_of_files, "notes.txt").dblclick()
    editor = lab.page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_contain_text("first")
    editor.click()
    expect(editor).to_be_focused()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("second")
    # Else a lost key and a lost save would look the same.
    expect(editor.locator(".cm-line").last).to_have_text("second")
    lab.page.keyboard.press("Control+s")

    server.wait_for(sandbox, "/home/user/notes.txt", b"first\nsecond")
    expect(lab.page.locator(".jp-Dialog")).to_have_count(0)


def test_a_hostile_file_name_is_text(lab: Lab, browser_of_files: Locator):
    expect(item(browser_of_files, HOSTILE)).to_have_count(1)
    expect(browser_of_files.locator(".jp-DirListing-content img")).to_have_count(0)


def test_files_made_inside_appear(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    server.write(sandbox, "/home/user/appeared.txt", b"")
    expect(item(browser_of_files, "appeared.txt")).to_be_visible()


def test_a_file_is_uploaded_with_its_bytes(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator, tmp_path: Path
):
    content = bytes(range(256)) * 1000
    local = tmp_path / "bytes.bin"
    local.write_bytes(content)
    with lab.page.expect_file_chooser() as chooser:
        browser_of_files.get_by_title("Upload Files").click()
    chooser.value.set_files(local)

    item(browser_of_files, "bytes.bin").wait_for()
    server.wait_for(sandbox, "/home/user/bytes.bin", content)


def test_a_file_and_a_folder_are_downloaded(lab: Lab, browser_of_files: Locator):
    browser_of_files.get_by_text("notes.txt").wait_for()
    with lab.page.expect_download() as folder:
        lab.execute("sbx:download-folder")
    assert folder.value.suggested_filename == "user.zip"
    with zipfile.ZipFile(folder.value.path()) as archive:
        assert archive.read("user/notes.txt") == b"first\n"

    item(browser_of_files, "notes.txt").click()
    with lab.page.expect_download() as download:
        lab.execute("filebrowser:download")
    assert download.value.suggested_filename == "notes.txt"
    assert download.value.path().read_bytes() == b"first\n"


def test_a_file_is_renamed_and_deleted(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    item(browser_of_files, "notes.txt").click()
    lab.page.keyboard.press("F2")
    lab.page.keyboard.press("Control+a")
    lab.page.keyboard.type("renamed.txt")
    lab.page.keyboard.press("Enter")
    server.wait_for(sandbox, "/home/user/renamed.txt", b"first\n")

    item(browser_of_files, "renamed.txt").click()
    lab.page.keyboard.press("Delete")
    lab.page.locator(".jp-Dialog .jp-mod-warn").click()
    expect(item(browser_of_files, "renamed.txt")).to_have_count(0)
    assert server.read(sandbox, "/home/user/renamed.txt") is None


def test_file_new_still_asks_the_server(lab: Lab, server: JupyterServer):
    lab.execute("docmanager:new-untitled", path="", type="file")
    assert (server.root / "untitled.txt").exists()


def delete(lab: Lab, files: Locator, name: str) -> None:
    item(files, name).click()
    lab.page.keyboard.press("Delete")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()


def test_a_deleted_file_is_in_the_trash_until_it_is_put_back(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    delete(lab, browser_of_files, "notes.txt")

    expect(item(browser_of_files, "notes.txt")).to_have_count(0)
    trash = "/home/user/.local/share/Trash"
    server.wait_for(sandbox, f"{trash}/files/notes.txt", b"first\n")
    lab.page.get_by_role("button", name="Undo").click()
    server.wait_for(sandbox, "/home/user/notes.txt", b"first\n")
    expect(item(browser_of_files, "notes.txt")).to_be_visible()


def test_the_files_are_shown_again_after_a_reload(
    lab: Lab, sandbox: str, browser_of_files: Locator
):
    browser_of_files.locator(".jp-DirListing-content").wait_for()
    lab.wait_saved("sbx-files:", f'"sandbox": "{sandbox}"')

    lab.reload()

    lab.page.locator("#sbx-files").wait_for(state="attached")
    lab.page.evaluate("jupyterapp.shell.activateById('sbx-files')")
    expect(item(lab.page.locator("#sbx-files"), "notes.txt")).to_be_visible()
    expect(lab.page.locator(".sbx-FileBrowser-name")).to_have_text("workbench")
    lab.show_panel()


def test_the_files_of_an_ended_sandbox_are_greyed_out(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    server.kill(sandbox)

    notice = browser_of_files.locator(".sbx-FileBrowser-ended")
    expect(notice).to_contain_text("workbench has ended")
    listing = browser_of_files.locator(".jp-FileBrowser-listing")
    assert float(listing.evaluate("node => getComputedStyle(node).opacity")) < 1
    notice.get_by_role("button", name="Close").click()
    expect(lab.page.locator("#sbx-files")).to_have_count(0)


def test_a_rename_onto_another_file_asks_first(
    lab: Lab, sandbox: str, server: JupyterServer, browser_of_files: Locator
):
    server.write(sandbox, "/home/user/other.txt", b"second\n")
    item(browser_of_files, "other.txt").wait_for()

    def rename() -> None:
        item(browser_of_files, "notes.txt").click()
        lab.page.keyboard.press("F2")
        lab.page.keyboard.press("Control+a")
        lab.page.keyboard.type("other.txt")
        lab.page.keyboard.press("Enter")

    rename()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Cancel").click()
    expect(item(browser_of_files, "notes.txt")).to_have_count(1)
    assert server.read(sandbox, "/home/user/other.txt") == b"second\n"

    rename()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Overwrite").click()
    server.wait_for(sandbox, "/home/user/other.txt", b"first\n")
    assert server.read(sandbox, "/home/user/notes.txt") is None
