"""What the notebook remembers, and checkpoints of a sandbox's files."""

from __future__ import annotations

import httpx
import pytest

from tests.magics.conftest import Notebook, notebook_on
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

TARGET = "sbx-jupyter:notebook"


def remembered(kernel, source):
    """What a cell lets the notebook remember, as the page receives it."""
    heard = []

    def listen(message):
        if message["msg_type"] == "comm_open" and message["content"]["target_name"] == TARGET:
            heard.append(message["content"]["data"])

    on_message = kernel.client.process_message
    kernel.client.process_message = lambda message, *rest: (
        listen(message),
        on_message(message, *rest),
    )[1]
    try:
        cell = kernel.run(source)
    finally:
        kernel.client.process_message = on_message
    assert cell.error is None, cell.error
    return heard


def test_the_page_is_told_the_sandbox_its_template_and_snapshot(kernel, engine):
    [created] = remembered(kernel, "%sbx create noted")
    [captured] = remembered(kernel, "%sbx snapshot")

    assert set(created) == {"sandbox", "template", "snapshot", "name"}
    assert (created["name"], created["template"]) == ("noted", "code-interpreter-v1")
    assert created["snapshot"] is None
    assert captured["snapshot"]
    assert engine.key not in str((created, captured))


def test_checkpoints_go_back_to_the_files_after_a_cell(kernel):
    kernel.run("%sbx create drafts\n%sbx checkpoint on")
    first = kernel.run("%%sbx bash\necho one > draft")
    at = kernel.count
    kernel.run("%%sbx bash\necho two > draft")
    kernel.run("%sbx checkpoint off")
    unmarked = kernel.run("%%sbx bash\ntrue")

    gone = kernel.run(f"%sbx checkpoint go {at}")
    shown = kernel.run("%%sbx bash\ncat draft")
    wrong = kernel.run("%sbx checkpoint go 9999")
    unnamed = kernel.run("%sbx checkpoint go")
    [listed] = kernel.run("%sbx checkpoint list").displayed

    assert f"checkpoint {at}" in first.footer
    assert "checkpoint" not in unmarked.footer
    assert f"run cells 1 to {at}" in gone.stdout
    assert shown.stdout == "one\n"
    assert "there is no checkpoint of cell 9999" in wrong.error
    assert f"%sbx checkpoint go CELL; there is {at}" in unnamed.error
    assert f"In [{at}] drafts" in listed["text/plain"]


@pytest.fixture
def fresh(engine, tmp_path):
    """A kernel without checkpoints."""
    with notebook_on(engine, tmp_path) as notebook:
        yield notebook


def test_a_checkpoint_that_a_sandbox_stands_on_is_removed_after_that(fresh):
    module = "sbx_jupyter.magics.checkpoints"
    fresh.run(f"%%local\nimport {module}\n{module}.MAX_KEPT = 1")
    fresh.run("%sbx create stands\n%sbx checkpoint on")
    fresh.run("%%sbx bash\necho one > draft")
    at = fresh.count
    fresh.run(f"%sbx checkpoint go {at}")

    second = fresh.run("%%sbx bash\ncat draft")
    [listed] = fresh.run("%sbx checkpoint list").displayed
    before = snapshots(fresh)
    fresh.run(f"%sbx kill stands@{at}")
    fresh.run("%sbx create afterwards")
    third = fresh.run("%%sbx bash\ntrue")

    assert (second.error, second.stdout) == (None, "one\n")
    assert f"In [{at}]" not in listed["text/plain"]
    assert third.error is None
    assert len(before - snapshots(fresh)) == 2


def snapshots(kernel: Notebook) -> set[str]:
    """The unnamed snapshots of the engine."""
    answer = httpx.get(
        f"{kernel.engine.connection.url}/snapshots",
        headers={"X-API-Key": kernel.engine.connection.api_key},
        timeout=PATIENCE,
    )
    return {item["snapshotID"] for item in answer.json() if not item["names"]}
