"""What people see who open JupyterLab with the extension for the first time."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.server import CHECKOUT, TOKEN

if TYPE_CHECKING:
    from tests.browser.chromium import Profile
    from tests.browser.server import JupyterServer

IS_CHANGED = """async () => {
  const { context, sessionContext } = jupyterapp.shell.currentWidget;
  const { kernel } = sessionContext.session;
  // JupyterLab writes both into the notebook when they come.
  await Promise.all([kernel.info, kernel.spec, context.ready]);
  await new Promise(resolve => requestAnimationFrame(resolve));
  return context.model.dirty;
}"""


@pytest.mark.usefixtures("no_sandboxes")
def test_the_panel_is_open_and_empty_and_the_demo_unchanged(
    browser: Profile, server: JupyterServer
):
    script = CHECKOUT / "binder" / "match_kernel.py"
    target = server.root / "demo"
    subprocess.run([sys.executable, script, script.parent, target], check=True)

    with browser.new_page() as page:
        workspace = f"{server.url}lab/workspaces/{uuid.uuid4().hex}"
        page.goto(f"{workspace}/tree/demo/demo.ipynb?token={TOKEN}")
        panel = page.locator("#sbx-panel")
        expect(panel).to_be_visible()
        expect(panel).to_contain_text("No sandboxes yet")

        page.wait_for_function(
            "() => jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'",
        )
        assert not page.evaluate(IS_CHANGED)
