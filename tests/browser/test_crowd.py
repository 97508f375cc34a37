"""What is large: 200 sandboxes in the panel, 100,000 files in a folder, a flood in a terminal.

`make test-crowd` prints the figures; the default run leaves it out, since they mean nothing on a
machine that does something else.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.server import JupyterServer, jupyter_server
from tests.browser.terminal.test_terminal import open_terminal
from tests.engine_process import engine_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.lab import Lab

pytestmark = pytest.mark.timeout(500)

COUNT = 200
IDLE_SECONDS = 60

SCROLL = """async selector => {
  const body = document.querySelector(selector);
  const frames = [];
  let last = performance.now();
  for (let step = 0; step < 240; step += 1) {
    body.scrollTop = (body.scrollHeight - body.clientHeight) * (0.5 - 0.5 * Math.cos(step / 20));
    await new Promise(resolve => requestAnimationFrame(resolve));
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  frames.sort((one, other) => one - other);
  const late = frames.filter(each => each > 34).length;
  return { median: frames[120], slowest: frames[239], late };
}"""
"""Scrolls up and down for 240 frames; a frame is late that takes more than two of 60 a second."""


@pytest.fixture(scope="module")
def server() -> Iterator[JupyterServer]:
    """A Jupyter server whose engine allows more sandboxes than usual."""
    home = Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp"))
    try:
        with (
            engine_process("crowd", f"--SbxEngine.max_sandboxes={COUNT + 50}") as engine,
            jupyter_server(home, engine.data_dir) as running,
        ):
            yield running
    finally:
        shutil.rmtree(home)


TIMES_SLOWER = 1.5
"""What ours may take beside JupyterLab's own list of as many, in the same page."""
MOST_LATE = 24
"""Of 240 frames."""
OWN_FILES = 1000
"""As many as our listing shows at first of a large folder."""

WATCH = """() => {
  window.watched = { tasks: [0], frames: [], on: true };
  const observer = new PerformanceObserver(list => {
    list.getEntries().forEach(entry => window.watched.tasks.push(entry.duration));
  });
  observer.observe({ type: 'longtask' });
  let last = performance.now();
  const frame = now => {
    window.watched.frames.push(now - last);
    last = now;
    if (window.watched.on) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
"""Notes how long tasks and frames take from now on."""

WATCHED = """() => {
  window.watched.on = false;
  const frames = window.watched.frames.sort((one, other) => one - other);
  return {
    task: Math.max(...window.watched.tasks),
    median: frames[Math.floor(frames.length / 2)],
    slowest: frames[frames.length - 1],
  };
}"""

OPEN_FOLDER = """async ([command, options, listing]) => {
  const begun = performance.now();
  void jupyterapp.commands.execute(command, options);
  const name = /entry-/;
  while (!name.test(document.querySelector(`${listing} .jp-DirListing-content`)?.textContent)) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
  return performance.now() - begun;
}"""
"""Milliseconds from the command to the first names."""


def open_own_folder(lab: Lab, server: JupyterServer, count: int) -> float:
    """Open a folder of the host in JupyterLab's own file browser; milliseconds to its names."""
    folder = server.root / f"own-{count}"
    folder.mkdir()
    for number in range(count):
        (folder / f"entry-{number:06}").touch()
    lab.execute("filebrowser:activate")
    options = {"path": folder.name}
    return lab.page.evaluate(OPEN_FOLDER, ["filebrowser:go-to-path", options, "#filebrowser"])


def test_two_hundred_sandboxes_scroll_and_rest(lab: Lab, server: JupyterServer) -> None:
    made = [server.create(f"crowd-{number}", timeout=1800) for number in range(COUNT)]
    lab.execute("sbx:refresh")
    expect(lab.rows).to_have_count(COUNT, timeout=60_000)
    expect(lab.rows.locator(".sbx-Row-chart").first).to_be_visible(timeout=60_000)

    frames = lab.page.evaluate(SCROLL, ".sbx-Panel-body")
    received, asked, minutes = rest(lab)
    open_own_folder(lab, server, COUNT)
    own = lab.page.evaluate(SCROLL, "#filebrowser .jp-DirListing-content")
    for name, each in {"sandboxes": frames, "files in JupyterLab's own browser": own}.items():
        print(
            f"\n{COUNT} {name}: a frame takes {each['median']:.1f} ms in the median, "
            f"{each['slowest']:.0f} ms at most, {each['late']} of 240 late"
        )
    print(f"idle {received / minutes / 1024:.0f} KiB, {asked / minutes:.0f} requests a minute")
    for sandbox_id in made:
        server.kill(sandbox_id)

    assert frames["median"] < TIMES_SLOWER * own["median"]
    assert frames["late"] <= MOST_LATE


def rest(lab: Lab) -> tuple[int, int, float]:
    """Do nothing for a while; the bytes and requests of that time, and its minutes."""
    received = 0
    session = lab.page.context.new_cdp_session(lab.page)

    def count(event: dict[str, float]) -> None:
        nonlocal received
        received += int(event["encodedDataLength"])

    session.on("Network.dataReceived", count)
    session.send("Network.enable")
    lab.requests.clear()
    begun = time.monotonic()
    lab.page.wait_for_timeout(IDLE_SECONDS * 1000)
    minutes = (time.monotonic() - begun) / 60
    return received, len([url for url in lab.requests if "/sbx/api/" in url]), minutes


def test_a_folder_of_a_hundred_thousand_files(
    lab: Lab, sandbox: str, server: JupyterServer
) -> None:
    open_terminal(lab)
    made = "mkdir big && cd big && seq -f entry-%06.0f 1 100000 | xargs touch && touch ../made"
    lab.type_in_terminal(made)
    server.wait_for(sandbox, "/home/user/made", b"", 120)
    lab.page.evaluate(WATCH)

    options = {"sandbox": sandbox, "path": "/home/user/big"}
    paint = lab.page.evaluate(OPEN_FOLDER, ["sbx:browse-files", options, "#sbx-files"])
    expect(lab.page.locator(".sbx-FileBrowser-cut")).to_contain_text("of 100,000")
    lab.page.wait_for_timeout(2000)
    watched = lab.page.evaluate(WATCHED)
    lab.page.evaluate(WATCH)
    own_paint = open_own_folder(lab, server, OWN_FILES)
    lab.page.wait_for_timeout(2000)
    own = lab.page.evaluate(WATCHED)
    print(
        f"\n100,000 files: first names after {paint:.0f} ms, longest task {watched['task']:.0f} ms"
        f"; {OWN_FILES:,} in JupyterLab's own browser: {own_paint:.0f} and {own['task']:.0f} ms"
    )

    assert paint < 10_000
    assert watched["task"] < TIMES_SLOWER * own["task"]


FLOOD = "seq -f 'a line of the flood %010.0f' 1 {lines}; touch {done}"
LINES = 1_000_000


def test_a_terminal_floods_beside_that_of_jupyterlab(
    lab: Lab, sandbox: str, server: JupyterServer
) -> None:
    open_terminal(lab)
    ours = flood(lab, "/tmp/flooded", lambda: server.read(sandbox, "/tmp/flooded") is not None)
    lab.execute("terminal:create-new")
    wait_connected_content(lab)
    done = server.root / "flooded"
    theirs = flood(lab, str(done), done.exists)
    for name, (seconds, watched) in {"sandbox": ours, "JupyterLab": theirs}.items():
        print(
            f"\n{LINES:,} lines in the terminal of {name}: {seconds:.1f} s, a frame takes "
            f"{watched['median']:.1f} ms in the median, {watched['slowest']:.0f} ms at most"
        )

    assert ours[1]["median"] < 2 * theirs[1]["median"]


def flood(lab: Lab, done: str, is_done: Callable[[], bool]) -> tuple[float, dict[str, float]]:
    """Print many lines in the terminal in front; the seconds, and how long frames took."""
    lab.page.evaluate(WATCH)
    begun = time.monotonic()
    lab.type_in_terminal(FLOOD.format(lines=LINES, done=done))
    while not is_done():
        lab.page.wait_for_timeout(50)
    return time.monotonic() - begun, lab.page.evaluate(WATCHED)


def wait_connected_content(lab: Lab) -> None:
    """Wait until the terminal of JupyterLab in front is connected."""
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.content?.session?.connectionStatus === 'connected'"
    )
