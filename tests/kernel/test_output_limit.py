"""What is passed on of a sandboxed kernel's output, cell by cell."""

from __future__ import annotations

import json

import pytest

from sbx_jupyter.kernel import output_limit
from sbx_jupyter.kernel.output_limit import OutputLimit

CELL = json.dumps({"msg_id": "cell", "msg_type": "execute_request"}).encode()
IDLE = json.dumps({"execution_state": "idle"}).encode()


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(output_limit, "MAX_TEXT", 1000)
    monkeypatch.setattr(output_limit, "MAX_DISPLAYED", 1000)
    monkeypatch.setattr(output_limit, "MAX_TAIL", 10)
    monkeypatch.setattr(output_limit, "EACH", 1)
    limit = OutputLimit()
    limit.begin(CELL)
    return limit


def passed(limit: OutputLimit, kind: str, content: object, parent: bytes = CELL):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    header = json.dumps({"msg_type": kind}).encode()
    return [(name, json.loads(found)) for name, found in limit.passed(header, parent, raw)]


def printed(limit: OutputLimit, text: str, parent: bytes = CELL):
    return passed(limit, "stream", {"name": "stdout", "text": text}, parent)


def test_output_below_the_limit_is_passed_on_as_it_is(limit):
    content = {"name": "stdout", "text": "hello\ud800"}
    assert passed(limit, "stream", content) == [("stream", content)]
    assert passed(limit, "status", IDLE) == [("status", {"execution_state": "idle"})]


def test_a_flood_is_cut_once_and_its_end_is_shown_when_the_cell_ends(limit):
    first = printed(limit, "x" * 2000)
    rest = [printed(limit, f"{number:09}\n") for number in range(100)]
    *end, idle = passed(limit, "status", IDLE)

    assert [content["name"] for _, content in first] == ["stdout", "stderr"]
    assert len(first[0][1]["text"]) == 1000
    assert "prints more than is shown" in first[1][1]["text"]
    assert rest == [[]] * 100
    assert end[0][1]["text"] == "[cut: 1.99 kB of output left out; its end follows]\n"
    assert end[1][1] == {"name": "stdout", "text": "000000099\n"}
    assert idle == ("status", {"execution_state": "idle"})
    assert len(passed(limit, "status", IDLE)) == 1


def test_results_beyond_the_limit_are_counted_and_not_shown(limit):
    shown = [passed(limit, "display_data", {"data": {"text/plain": "y" * 400}}) for _ in range(5)]

    assert [len(each) for each in shown] == [1, 1, 0, 0, 0]
    assert "3 more results are not shown" in passed(limit, "status", IDLE)[0][1]["text"]


def test_each_cell_has_a_limit_of_its_own_and_clearing_gives_it_back(limit):
    other = json.dumps({"msg_id": "other", "msg_type": "execute_request"}).encode()
    limit.begin(other)
    printed(limit, "x" * 2000)

    assert printed(limit, "here", other) == [("stream", {"name": "stdout", "text": "here"})]
    assert printed(limit, "gone") == []
    passed(limit, "clear_output", {"wait": True})
    assert printed(limit, "there") == [("stream", {"name": "stdout", "text": "there"})]


def test_names_of_cells_that_nobody_ran_share_one_limit(limit):
    names = [json.dumps({"msg_id": f"forged {number}"}).encode() for number in range(10)]

    sizes = [sum(len(c["text"]) for _, c in printed(limit, "x" * 400, name)) for name in names]

    assert sum(sizes) < 1100


def test_updates_are_let_through_at_a_rate(limit, monkeypatch):
    monkeypatch.setattr(output_limit.time, "monotonic", lambda: limit._bucket.filled)
    update = {"data": {"text/plain": "y" * 8_000_000}}

    shown = [len(passed(limit, "update_display_data", update)) for _ in range(12)]

    assert shown == [1] * 8 + [0] * 4


def test_buffers_of_widgets_count_for_the_rate(limit, monkeypatch):
    monkeypatch.setattr(output_limit.time, "monotonic", lambda: limit._bucket.filled)
    header = json.dumps({"msg_type": "comm_msg"}).encode()

    shown = [len(limit.passed(header, CELL, b"{}", 8_000_000)) for _ in range(12)]

    assert shown == [1] * 8 + [0] * 4


def test_replies_are_let_through_at_a_rate(limit, monkeypatch):
    now = limit._replies.filled
    monkeypatch.setattr(output_limit.time, "monotonic", lambda: now)

    assert [limit.passes_reply(8_000_000) for _ in range(12)] == [True] * 8 + [False] * 4
    assert [limit.passes_reply(10) for _ in range(1000)] == [True] * 1000

    now += 1
    assert limit.passes_reply(8_000_000)


def test_what_the_sandbox_left_out_is_told_where_it_is_missing_or_counted(limit):
    [(_, told)] = passed(limit, "sbx_cut", {"size": 5_000_000})
    printed(limit, "x" * 2000)

    assert told["text"] == "\n[cut: 5 MB of output came faster than it was read]\n"
    assert passed(limit, "sbx_cut", {"size": 7_000_000}) == []
    assert passed(limit, "status", IDLE)[0][1]["text"].startswith("[cut: 7 MB of output left out")


def test_a_forged_end_of_a_cell_gives_no_more_room(limit):
    printed(limit, "x" * 2000)
    kept = []
    for _ in range(3000):
        kept += printed(limit, "y" * 100) + passed(limit, "status", IDLE)[:-1]

    size = sum(len(content["text"]) for _, content in kept)

    assert "its end follows" in kept[0][1]["text"]
    assert size <= output_limit._MAX_TOLD


def test_forged_ends_between_results_that_are_not_shown_are_told_up_to_a_size(limit):
    for _ in range(3000):
        passed(limit, "display_data", {"data": {"text/plain": "y" * 400}})

    told = []
    for _ in range(3000):
        passed(limit, "display_data", {"data": {"text/plain": "y"}})
        told += passed(limit, "status", IDLE)[:-1]

    assert 0 < len(told) <= output_limit._MAX_TOLD // output_limit._EACH_TEXT


def test_sentences_about_what_the_sandbox_left_out_are_limited_as_well(limit):
    told = [len(passed(limit, "sbx_cut", {"size": 1})) for _ in range(3000)]

    assert sum(told) <= 1000 // output_limit._EACH_TEXT + 1
    assert printed(limit, "x") == []


def test_clearing_gives_room_back_only_if_the_page_is_told_to_clear(limit, monkeypatch):
    now = limit._rest.filled
    monkeypatch.setattr(output_limit.time, "monotonic", lambda: now)
    printed(limit, "x" * 2000)
    limit._rest.left = 0.0

    assert passed(limit, "clear_output", {"wait": False}) == []
    assert printed(limit, "more") == []

    now += 1
    assert len(passed(limit, "clear_output", {"wait": False})) == 1
    assert len(printed(limit, "more")) == 1


def test_what_is_left_out_after_clearing_is_told_again(limit):
    for _ in range(3000):
        printed(limit, "x" * 2000)
        passed(limit, "status", IDLE)
    passed(limit, "clear_output", {"wait": False})
    printed(limit, "x" * 2000)

    assert "its end follows" in passed(limit, "status", IDLE)[0][1]["text"]


def test_a_flood_of_short_messages_is_cut_and_counted(monkeypatch):
    limit = OutputLimit()
    limit.begin(CELL)
    now = limit._rest.filled = limit._bucket.filled
    monkeypatch.setattr(output_limit.time, "monotonic", lambda: now)

    let_through = {
        kind: sum(len(passed(limit, kind, content)) for _ in range(20_000))
        for kind, content in (
            ("comm_msg", {"comm_id": "c", "data": {}}),
            ("display_data", {"data": {}}),
            ("execute_input", {"code": "", "execution_count": 1}),
        )
    }

    assert let_through == {"comm_msg": 8192, "display_data": 8192, "execute_input": 8192}
    said = "".join(content["text"] for _, content in passed(limit, "status", IDLE)[:-1])
    assert "11808 more results are not shown" in said
    assert "11808 updates of results and widgets came too fast" in said
