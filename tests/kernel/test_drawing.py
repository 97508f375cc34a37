"""What a kernel that may draw in a page sends besides, and that nothing else of it changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.kernel.drawing import DIRECT, MAX_PAGES, PageDrawing
from sbx_jupyter.kernel.messages import DELIMITER, Signer, direct_comm, from_guest

OURS, THEIRS = Signer(b"ours"), Signer(b"theirs")
MARK = "a-mark-of-one-page"
HTML = {"text/html": "<script>draw()</script>", "text/plain": "drawn"}
WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "m1"}, "text/plain": "w"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def drawing(clock: Clock) -> PageDrawing:
    return PageDrawing(clock)


def message(kind: str, content: dict[str, Any]) -> list[bytes]:
    parts = [json.dumps(part).encode() for part in ({"msg_type": kind}, {}, {"x": 1}, content)]
    return [b"peer", DELIMITER, THEIRS.sign(parts), *parts, b"a buffer"]


def shown(bundle: dict[str, Any], drawing: PageDrawing | None) -> dict[str, Any]:
    frames = message("display_data", {"data": bundle, "metadata": {"a": 1}})
    found = from_guest("iopub", frames, THEIRS, OURS, drawing)
    assert found is not None
    return json.loads(OURS.split(found)[1][3])["data"]


def comm(kind: str, drawing: PageDrawing, **content: Any) -> tuple[Any, Any] | None:
    found = direct_comm(message(kind, {"comm_id": "m1"} | content), THEIRS, OURS, drawing)
    if found is None:
        return None
    _, parts, buffers = OURS.split(found)
    assert buffers == [b"a buffer"]
    return json.loads(parts[2]), json.loads(parts[3])


def test_nothing_is_sent_besides_unless_a_page_allows_it(drawing: PageDrawing):
    assert shown(HTML, drawing) == shown(HTML, None)
    assert comm("comm_open", drawing, target_name="jupyter.widget") is None


def test_what_is_safe_stays_beside_what_is_direct(drawing: PageDrawing):
    drawing.allow(MARK, 60)

    found = shown(HTML, drawing)

    direct = found.pop(DIRECT)
    assert direct == {"marks": [MARK], "data": HTML, "metadata": {"a": 1}}
    assert found == shown(HTML, None)
    assert shown({"text/plain": "1"}, drawing) == {"text/plain": "1"}


def test_a_kernel_cannot_forge_what_is_direct(drawing: PageDrawing):
    forged = {DIRECT: {"marks": [MARK], "data": HTML, "metadata": {}}, "text/plain": "x"}
    assert DIRECT not in shown(forged, None)
    assert DIRECT not in shown(forged, drawing)


def test_comms_are_sent_as_they_are_without_code_to_load(drawing: PageDrawing):
    drawing.allow(MARK, 60)

    opened = comm("comm_open", drawing, target_name="jupyter.widget", target_module="evil")

    content = {"comm_id": "m1", "target_name": "jupyter.widget"}
    assert opened == ({"x": 1, "sbx_jupyter_marks": [MARK]}, content)
    assert comm("comm_msg", drawing, data={"x": 1}) is not None
    assert comm("comm_msg", drawing, comm_id="sbx-jupyter:kernel-ended", data={}) is None


def test_a_widget_is_direct_only_if_its_page_heard_of_it(drawing: PageDrawing):
    drawing.allow(MARK, 60)
    assert DIRECT not in shown(WIDGET, drawing)
    comm("comm_open", drawing, target_name="jupyter.widget")
    assert shown(WIDGET, drawing)[DIRECT]["data"] == WIDGET


def test_permission_ends_with_its_time_or_at_once(drawing: PageDrawing, clock: Clock):
    drawing.allow(MARK, 60)
    clock.now = 59
    drawing.allow(MARK, 60)
    clock.now = 118
    assert drawing.marks() == [MARK]
    clock.now = 119
    assert drawing.marks() == []
    drawing.allow(MARK, 60)
    drawing.allow(MARK, 0)
    assert drawing.marks() == []


@pytest.mark.parametrize(
    ("mark", "seconds"), [("short", 1), ("x" * 65, 1), (MARK, 601), (MARK, -1)]
)
def test_other_marks_and_times_are_refused(drawing: PageDrawing, mark: str, seconds: int):
    with pytest.raises(InvalidArgumentError):
        drawing.allow(mark, seconds)
    assert drawing.marks() == []


def test_a_kernel_draws_in_a_bounded_number_of_pages(drawing: PageDrawing):
    for number in range(MAX_PAGES):
        drawing.allow(f"{MARK}-{number}", 60)
    with pytest.raises(InvalidArgumentError, match="8 pages already"):
        drawing.allow(MARK, 60)
    drawing.allow(f"{MARK}-0", 60)
