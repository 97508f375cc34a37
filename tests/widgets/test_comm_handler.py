"""What a widget's front end asks over the comm, answered by a real sandbox."""

from __future__ import annotations

import contextvars
import json
import threading
import time

import pytest

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.processes.terminal_link import LIMIT
from sbx_jupyter.widgets.comm_handler import MAX_TERMINALS, CommHandler
from sbx_jupyter.widgets.rate_limit import BURST, RATE
from tests.waiting import PATIENCE, until


def test_files_are_written_listed_read_moved_and_removed(front_end):
    assert front_end.call("make_dir", path="d")[0]["ok"] == {}
    assert front_end.call("write", b"con\x00tent", path="d/a")[0]["ok"] == {}

    listing, _ = front_end.call("list", path="/home/user/d")
    [entry] = listing["ok"]["entries"]
    assert (entry["name"], entry["type"]) == ("a", "FILE_TYPE_FILE")
    assert json.loads(json.dumps(listing)) == listing

    _, [content] = front_end.call("read", path="d/a")
    assert content == b"con\x00tent"

    front_end.call("move", source="d/a", destination="d/b")
    front_end.call("remove", path="d/b")
    assert front_end.call("list", path="d")[0]["ok"] == {"entries": []}


def test_a_reading_is_answered(front_end):
    answer, _ = front_end.call("metrics")

    assert answer["ok"]["mem_total"] > 0
    assert answer["view"] == "view"


def test_what_fails_is_answered_with_a_code_and_a_sentence(front_end):
    answer, _ = front_end.call("list", path="/no/such")

    assert answer["error"]["code"] == "not_found"
    assert "/no/such" in answer["error"]["message"]


def test_a_file_too_large_for_a_comm_is_refused_with_the_way_out(front_end, box):
    box.commands.run("head -c 17000000 /dev/zero > /home/user/large")

    answer, _ = front_end.call("read", path="large")

    assert answer["error"]["code"] == "resource_exhausted"
    assert "sandbox.files.download" in answer["error"]["message"]


def test_a_message_that_is_none_is_refused_and_the_next_one_served(front_end):
    front_end.comm_handler.receive({"id": 7, "op": "list"}, [])
    content, _ = front_end.next()
    assert (content["id"], content["error"]["code"]) == (7, "invalid_argument")

    for nonsense in (None, "text", [], {}):
        front_end.comm_handler.receive(nonsense, [])
    assert "ok" in front_end.call("metrics")[0]


def test_a_message_that_is_refused_does_not_hold_up_its_view(front_end):
    refused, _ = front_end.call("terminal_open", cols="wide")
    assert refused["error"]["code"] == "invalid_argument"

    assert "ok" in front_end.call("metrics")[0]


def test_a_bug_is_answered_and_the_next_message_served(front_end, monkeypatch):
    async def broken(self, request):
        raise ZeroDivisionError

    monkeypatch.setattr(CommHandler, "_open_terminal", broken)

    assert front_end.call("terminal_open")[0]["error"]["code"] == "internal"
    assert "ok" in front_end.call("metrics")[0]


def test_an_operation_that_is_not_offered_is_told(front_end):
    answer, _ = front_end.call("format_disk")

    assert answer["error"]["code"] in ("unimplemented", "not_found")


def test_a_terminal_echoes_resizes_and_ends(front_end):
    terminal = front_end.send("terminal_open", cols=91, rows=33)
    answer, _ = front_end.next()
    assert answer["ok"]["pid"] > 0

    front_end.send("terminal_input", b"stty size\n", terminal=terminal)
    front_end.output_until(terminal, b"33 91")
    front_end.send("terminal_resize", terminal=terminal, cols=50, rows=10)
    resized = b"until stty size | grep -q '10 50'; do sleep 0.05; done; echo re''sized\n"
    front_end.send("terminal_input", resized, terminal=terminal)
    front_end.output_until(terminal, b"resized")

    front_end.send("terminal_input", b"exit 4\n", terminal=terminal)
    assert front_end.event_of(terminal, "terminal_exit")["exit"]["code"] == 4


def test_keys_that_overtook_the_opening_wait_for_it(front_end):
    later = {"view": "view", "seq": 1, "op": "terminal_input", "id": 2, "terminal": 1}
    front_end.comm_handler.receive(later, [b"echo in-ord''er\n"])

    terminal = front_end.send("terminal_open", seq=0, cols=80, rows=24)

    front_end.output_until(terminal, b"in-order")


def test_a_view_that_comes_back_gets_what_it_missed(front_end, box):
    terminal = front_end.send("terminal_open")
    pid = front_end.next()[0]["ok"]["pid"]
    script = b"echo fir''st; until [ -e go ]; do sleep 0.05; done; echo sec''ond; touch said\n"
    front_end.send("terminal_input", script, terminal=terminal)
    front_end.output_until(terminal, b"first")
    shown = front_end.sequence
    front_end.send("terminal_close", terminal=terminal)
    front_end.call("metrics")  # so that it is closed
    box.files.write("go", "")
    until(lambda: box.files.exists("said"))

    again = front_end.send("terminal_open", pid=pid, since=shown)

    assert b"second" in front_end.output_until(again, b"second")


def test_closing_a_terminal_leaves_the_shell_running(front_end, box):
    terminal = front_end.send("terminal_open")
    pid = front_end.next()[0]["ok"]["pid"]

    front_end.send("terminal_close", terminal=terminal)
    front_end.call("metrics")

    assert pid in [process.pid for process in box.commands.list()]


def test_vanished_views_do_not_pile_up_terminals(front_end):
    pids = set()
    for _ in range(MAX_TERMINALS + 3):
        answer, _ = front_end.call("terminal_open")
        pids.add(answer["ok"]["pid"])

    assert len(pids) == MAX_TERMINALS + 3
    assert len(front_end.comm_handler._terminals) == MAX_TERMINALS


def test_the_view_of_the_oldest_terminal_is_told_why_it_ends(front_end):
    oldest = front_end.send("terminal_open")
    for _ in range(MAX_TERMINALS):
        front_end.send("terminal_open")

    error = front_end.event_of(oldest, "terminal_error")["error"]

    assert error["code"] == "failed_precondition"
    assert "newer views" in error["message"]


def test_a_terminal_that_reads_nothing_holds_up_no_other_message(front_end):
    terminal = front_end.send("terminal_open")
    front_end.next()
    for _ in range(3):
        front_end.send("terminal_input", bytes(LIMIT), terminal=terminal)

    assert "ok" in front_end.call("metrics")[0]


def test_endless_output_is_slowed_to_what_a_comm_can_take(front_end):
    terminal = front_end.send("terminal_open")
    front_end.send("terminal_input", b"yes\n", terminal=terminal)
    front_end.output_until(terminal, b"y\r\ny\r\n")

    def size() -> int:
        return sum(len(b) for _, buffers in list(front_end.received.queue) for b in buffers)

    started = time.monotonic()
    until(lambda: size() > 2 * BURST)
    passed, seconds = size(), time.monotonic() - started
    front_end.send("terminal_input", b"\x03", terminal=terminal)

    assert passed < 2 * (BURST + RATE * seconds)


def test_a_slow_operation_does_not_hold_up_the_keys(front_end, box):
    terminal = front_end.send("terminal_open")
    front_end.next()
    box.commands.run("head -c 15000000 /dev/zero > /home/user/large")

    for _ in range(4):
        front_end.send("read", path="large")
    front_end.send("terminal_input", b"echo qui''ck\n", terminal=terminal)

    front_end.output_until(terminal, b"quick")


def test_everything_is_sent_in_the_context_of_the_latest_message(box):
    parent = contextvars.ContextVar("parent", default="cell")
    seen = []
    arrived = threading.Event()

    def send(content, buffers):
        seen.append(parent.get())
        arrived.set()

    comm_handler = CommHandler(Portal.current(), box.on_portal, send)
    comm_handler.start()

    def deliver():
        parent.set("comm message")
        content = {"view": "v", "seq": 0, "op": "metrics", "id": 1}
        comm_handler.receive(content, [])

    contextvars.copy_context().run(deliver)
    assert arrived.wait(PATIENCE)
    comm_handler.close()

    assert seen == ["comm message"]


def test_a_killed_sandbox_ends_its_terminals_with_a_sentence(front_end, box):
    terminal = front_end.send("terminal_open")
    front_end.next()

    box.kill()

    error = front_end.event_of(terminal, "terminal_error")["error"]
    assert error["code"] in ("unavailable", "not_found")
    assert error["message"]


@pytest.mark.parametrize("op", ["terminal_input", "terminal_resize"])
def test_a_terminal_that_was_never_opened_is_told(front_end, op):
    answer, _ = front_end.call(op, terminal=99)

    assert answer["error"]["code"] == "not_found"


def test_a_terminal_closed_twice_is_no_error(front_end):
    front_end.send("terminal_close", terminal=99)

    assert "ok" in front_end.call("metrics")[0]
