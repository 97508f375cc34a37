"""The panel with 200 sandboxes: how it scrolls and what it asks when nobody does anything.

`make test-crowd` prints the figures; the default run leaves it out, for 200 sandboxes take a while.
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
from tests.engine_process import engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.lab import Lab

pytestmark = pytest.mark.timeout(500)

COUNT = 200
IDLE_SECONDS = 60

SCROLL = """async () => {
  const body = document.querySelector('.sbx-Panel-body');
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


def test_two_hundred_sandboxes_scroll_and_rest(lab: Lab, server: JupyterServer) -> None:
    made = [server.create(f"crowd-{number}", timeout=1800) for number in range(COUNT)]
    lab.execute("sbx:refresh")
    expect(lab.rows).to_have_count(COUNT, timeout=60_000)
    lab.page.wait_for_timeout(15_000)

    frames = lab.page.evaluate(SCROLL)
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
    asked = [url for url in lab.requests if "/sbx/api/" in url]
    print(
        f"\n{COUNT} sandboxes: a frame takes {frames['median']:.1f} ms in the median, "
        f"{frames['slowest']:.0f} ms at most, {frames['late']} of 240 late; idle "
        f"{received / minutes / 1024:.0f} KiB and {len(asked) / minutes:.0f} requests a minute"
    )

    assert frames["median"] < 100
    for sandbox_id in made:
        server.kill(sandbox_id)
