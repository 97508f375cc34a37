"""The application of the kernels, which waits for as little as possible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from ipykernel.iostream import IOPubThread
from jupyter_client.session import Session

from sbx_jupyter.interpreter.kernel_app import Output
from tests.interpreter.test_server import execute
from tests.waiting import PATIENCE


class Sent(IOPubThread):
    """Counts what it is asked for, and keeps what is sent."""

    def __init__(self, socket: Any) -> None:
        super().__init__(socket)
        self.asked = 0
        self.texts: list[str] = []

    def schedule(self, f: Any) -> None:
        self.asked += 1
        super().schedule(f)


@pytest.fixture
def sent() -> Iterator[Sent]:
    context = zmq.Context[Any]()
    socket = context.socket(zmq.PUB)
    thread = Sent(socket)
    thread.start()
    yield thread
    thread.stop()
    thread.close()
    context.term()


@pytest.fixture
def output(sent: Sent) -> Output:
    session = Session()
    made = Output(session, sent, "stdout", watchfd=False)

    def keep(message: dict[str, Any]) -> None:
        sent.texts.append(message["content"]["text"])

    # Hooks belong to a thread: that which sends.
    registered = threading.Event()
    sent.schedule(lambda: (made.register_hook(keep), registered.set()))
    assert registered.wait(PATIENCE)
    sent.asked = 0
    return made


def test_a_flush_of_nothing_waits_for_no_thread(output: Output, sent: Sent):
    output.flush()
    assert sent.asked == 0

    output.write("a")
    output.flush()
    assert sent.texts == ["a"]
    asked = sent.asked
    output.flush()
    assert sent.asked == asked


def test_each_thread_flushes_what_it_has_written(output: Output, sent: Sent):
    def work() -> None:
        output.write("from a thread")
        output.flush()
        assert "from a thread" in sent.texts

    for _ in range(3):
        sent.texts.clear()
        output.write("x")
        output.flush()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert sent.texts == ["x", "from a thread"]


def test_kernels_neither_sleep_nor_pass_requests_through_a_thread(http):
    code = """
kernel = get_ipython().kernel
(kernel._execute_sleep, bool(getattr(kernel, "shell_channel_thread", None)))
"""
    assert execute(http, code)[1]["text"] == "(0.0, False)"


def test_output_keeps_its_order(http):
    code = """
import sys
for number in range(20):
    print("out", number, flush=True)
    print("err", number, file=sys.stderr, flush=True)
"""
    said = [
        (event["type"], event["text"].strip())
        for event in execute(http, code)
        if event["type"] in ("stdout", "stderr")
    ]
    assert said == [
        (stream, f"{name} {number}")
        for number in range(20)
        for stream, name in (("stdout", "out"), ("stderr", "err"))
    ]
