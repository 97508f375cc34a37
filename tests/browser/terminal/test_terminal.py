"""Terminals in the main area, checked by what the typed commands did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.waiting import until, until_equal

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


def open_terminal(lab: Lab) -> None:
    row = lab.row("workbench")
    row.hover()
    row.get_by_label("Open terminal").click()
    wait_connected(lab)


def wait_connected(lab: Lab) -> None:
    lab.wait_until(
        "() => { const shown = jupyterapp.shell.currentWidget;"
        " return shown?.connection?.connectionStatus === 'connected'; }"
    )


def wait_running(server: JupyterServer, sandbox: str, program: str) -> None:
    """Wait until the shell has handed its terminal to the program."""
    (terminal,) = server.http.get(f"sandboxes/{sandbox}/terminals").json()
    url = f"sandboxes/{sandbox}/terminals/{terminal['pid']}"
    until_equal(lambda: server.http.get(url).json()["running"], program)


def test_what_is_typed_runs_in_the_sandbox(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.page.keyboard.type('printf %s "$PWD" > /tmp/proof')
    lab.page.keyboard.press("Enter")
    server.wait_for(sandbox, "/tmp/proof", b"/home/user")


def test_the_menu_copies_and_pastes_and_the_text_is_searched(
    lab: Lab, sandbox: str, server: JupyterServer
):
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_terminal(lab)
    lab.type_in_terminal("touch /tmp/needle")
    server.wait_for(sandbox, "/tmp/needle", b"")
    screen = lab.page.locator(".jp-Terminal:visible .xterm-screen")
    menu = lab.page.locator(".lm-Menu-item:not(.lm-mod-hidden)")

    screen.click(click_count=3, position={"x": 100, "y": 8})
    screen.click(button="right", position={"x": 100, "y": 8})
    menu.get_by_text("Copy", exact=True).click()
    until(lambda: "touch /tmp/needle" in lab.page.evaluate("navigator.clipboard.readText()"))

    lab.page.evaluate("navigator.clipboard.writeText('printf pasted > /tmp/pasted\\n')")
    screen.click(button="right")
    menu.get_by_text("Paste", exact=True).click()

    def is_run() -> bool:
        # The terminal reads the clipboard after the click.
        lab.page.keyboard.press("Enter")
        return server.read(sandbox, "/tmp/pasted") == b"pasted"

    until(is_run)

    lab.execute("documentsearch:start")
    lab.page.locator("textarea.jp-DocumentSearch-input").fill("needle")
    expect(lab.page.locator(".jp-DocumentSearch-index-counter")).to_have_text("1/1")


def test_a_named_terminal_is_opened_by_its_link_to_be_watched(
    lab: Lab, sandbox: str, server: JupyterServer
):
    open_terminal(lab)
    lab.execute("sbx:rename-terminal", name="build")
    expect(lab.page.locator(".lm-TabBar-tabLabel", has_text="build · workbench")).to_be_visible()
    (terminal,) = server.http.get(f"sandboxes/{sandbox}/terminals").json()

    lab.follow(str(server.http.base_url.join(f"{terminal['link']}&sbx-watch=1")))

    wait_connected(lab)
    expect(lab.page.locator(".sbx-TerminalWidget:visible")).to_contain_text("Read only")
    assert "sbx-terminal" not in lab.page.url
    (terminal,) = server.http.get(f"sandboxes/{sandbox}/terminals").json()
    assert True in [each["readOnly"] for each in terminal["viewers"]]


def test_a_reload_comes_back_to_the_same_shell(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal("kept=42; touch /tmp/ready")
    server.wait_for(sandbox, "/tmp/ready", b"")
    (terminal,) = server.http.get(f"sandboxes/{sandbox}/terminals").json()
    lab.wait_saved("sbx-terminal:", f'"pid": {terminal["pid"]},')

    lab.reload()

    lab.page.locator(".sbx-TerminalWidget:visible").wait_for()
    wait_connected(lab)
    lab.type_in_terminal("printf %s $kept > /tmp/kept")
    server.wait_for(sandbox, "/tmp/kept", b"42")
    lab.show_panel()


def test_a_shell_goes_on_after_its_sandbox_was_paused_and_resumed(
    lab: Lab, sandbox: str, server: JupyterServer
):
    open_terminal(lab)
    lab.type_in_terminal("kept=variable; touch /tmp/typed")
    server.wait_for(sandbox, "/tmp/typed", b"")

    lab.execute("sbx:pause", sandbox=sandbox)
    banner = lab.page.locator(".sbx-TerminalWidget-banner:visible")
    expect(banner).to_contain_text("The sandbox is paused.")
    banner.get_by_text("Resume", exact=True).click()
    wait_connected(lab)

    lab.type_in_terminal("printf $kept > /tmp/resumed")
    server.wait_for(sandbox, "/tmp/resumed", b"variable")


def test_a_terminal_whose_tab_was_closed_is_reopened(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal("kept=again; touch /tmp/ready")
    server.wait_for(sandbox, "/tmp/ready", b"")
    lab.page.evaluate("jupyterapp.shell.currentWidget.close()")

    lab.choose("workbench", "Reopen Terminal")
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Open").click()

    wait_connected(lab)
    lab.type_in_terminal("printf %s $kept > /tmp/kept")
    server.wait_for(sandbox, "/tmp/kept", b"again")


def test_two_terminals_are_two_shells(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal("printf %s $$ > /tmp/first; printf done > /tmp/first.done")
    server.wait_for(sandbox, "/tmp/first.done", b"done")
    open_terminal(lab)
    lab.type_in_terminal("printf %s $$ > /tmp/second; printf done > /tmp/second.done")
    server.wait_for(sandbox, "/tmp/second.done", b"done")

    assert server.read(sandbox, "/tmp/first") != server.read(sandbox, "/tmp/second")
    listed = server.http.get(f"sandboxes/{sandbox}/terminals").json()
    assert len(listed) == 2


def test_the_shell_has_the_size_of_the_screen(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal("stty size > /tmp/size; printf done > /tmp/size.done")
    server.wait_for(sandbox, "/tmp/size.done", b"done")
    rows, cols = map(int, (server.read(sandbox, "/tmp/size") or b"").split())
    assert rows > 24
    assert cols > 80


def test_the_end_of_the_shell_is_told(lab: Lab, sandbox: str):
    open_terminal(lab)
    lab.type_in_terminal("exit 3")
    banner = lab.page.locator(".sbx-TerminalWidget-banner")
    expect(banner.get_by_role("status")).to_have_text("The shell ended with code 3.")
    # Its layout gives it no height by itself.
    lab.wait_until("() => document.querySelector('.sbx-TerminalWidget-banner').offsetHeight >= 24")
    banner.get_by_role("button", name="New terminal").click()
    wait_connected(lab)
    expect(lab.page.locator(".sbx-TerminalWidget")).to_have_count(1)


def test_a_hostile_title_is_text(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal(
        r"PS1=; printf '\033]0;<img src=x onerror=window.hurt=1>\007'; touch /tmp/titled; sleep 99"
    )
    server.wait_for(sandbox, "/tmp/titled", b"")
    expect(lab.page.locator(".lm-TabBar-tabLabel", has_text="<img src=x")).to_be_visible()
    assert lab.page.evaluate("window.hurt") is None


def test_a_flood_of_output_leaves_the_page_alive(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.type_in_terminal("timeout 3 yes; printf done > /tmp/flood.done")
    server.wait_for(sandbox, "/tmp/flood.done", b"done")
    lab.type_in_terminal("printf alive > /tmp/alive")
    server.wait_for(sandbox, "/tmp/alive", b"alive")


def test_ending_a_terminal_asks_when_something_runs_in_it(
    lab: Lab, sandbox: str, server: JupyterServer
):
    open_terminal(lab)
    lab.type_in_terminal("sleep 1000")
    wait_running(server, sandbox, "sleep")
    end = lab.page.get_by_role("button", name="End terminal")
    dialog = lab.page.locator(".jp-Dialog")
    end.click()
    expect(dialog).to_contain_text("“sleep” runs in it")
    dialog.get_by_role("button", name="Cancel").click()
    assert len(server.http.get(f"sandboxes/{sandbox}/terminals").json()) == 1

    end.click()
    dialog.get_by_role("button", name="End terminal").click()

    expect(lab.page.locator(".sbx-TerminalWidget")).to_have_count(0)
    assert server.http.get(f"sandboxes/{sandbox}/terminals").json() == []


def test_a_closed_terminal_goes_on_and_can_be_ended(lab: Lab, sandbox: str, server: JupyterServer):
    open_terminal(lab)
    lab.page.evaluate("jupyterapp.shell.currentWidget.close()")
    toast = lab.page.locator(".Toastify__toast", has_text="is still running")
    assert len(server.http.get(f"sandboxes/{sandbox}/terminals").json()) == 1

    with lab.page.expect_response(lambda answer: answer.request.method == "DELETE"):
        toast.get_by_text("End it").click()

    assert server.http.get(f"sandboxes/{sandbox}/terminals").json() == []


FONT = "() => jupyterapp.shell.currentWidget.content.getOption('fontSize')"


def test_a_terminal_follows_the_settings_of_jupyterlab(lab: Lab, sandbox: str):
    open_terminal(lab)
    lab.execute("terminal:increase-font")
    lab.wait_until(f"() => ({FONT})() === 14")
    lab.execute("terminal:decrease-font")
    lab.wait_until(f"() => ({FONT})() === 13")
    background = "() => getComputedStyle(document.querySelector('.xterm-viewport')).backgroundColor"
    light = lab.page.evaluate(background)
    lab.use_theme("Dark")
    lab.wait_until(f"light => ({background})() !== light", light)
    lab.use_theme("Light")


def test_terminals_are_among_the_running_sessions(lab: Lab, sandbox: str):
    open_terminal(lab)
    lab.page.evaluate("jupyterapp.shell.activateById('jp-running-sessions')")
    running = lab.page.locator("#jp-running-sessions")
    expect(running.get_by_text("in workbench")).to_be_visible()
    lab.show_panel()
