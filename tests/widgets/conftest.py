"""A real engine, a sandbox in it, and the kernel's end of a widget."""

from __future__ import annotations

import queue
import threading

import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.widgets.comm_handler import CommHandler
from tests.engine_process import engine_process
from tests.waiting import PATIENCE


@pytest.fixture(scope="session")
def engine():
    with engine_process("widget-tests") as running:
        yield running


@pytest.fixture
def config(engine):
    return ConnectionConfig.from_connection_file(engine.connection)


@pytest.fixture
def box(config):
    with Sandbox.create(timeout=600, config=config) as sandbox:
        yield sandbox


class FrontEnd:
    """One page with one view: numbers its messages and collects what the kernel sends."""

    comm_handler: CommHandler

    def __init__(self, view="view"):
        self.view = view
        self.received = queue.Queue()
        self._seq = 0
        self._id = 0

    def send(self, op, *buffers, seq=None, **fields):
        """Post a message; its id."""
        self._id += 1
        number = self._seq if seq is None else seq
        self._seq = number + 1
        content = {"view": self.view, "seq": number, "op": op, "id": self._id, **fields}
        self.comm_handler.receive(content, [memoryview(b) for b in buffers])
        return self._id

    def next(self):
        return self.received.get(timeout=PATIENCE)

    def call(self, op, *buffers, **fields):
        """Post a message and give back its answer."""
        number = self.send(op, *buffers, **fields)
        while True:
            content, answer_buffers = self.next()
            if content.get("id") == number:
                return content, answer_buffers

    def output_until(self, terminal, wanted):
        """What a terminal prints up to and with ``wanted``."""
        seen = b""
        while wanted not in seen:
            content, buffers = self.next()
            if content.get("terminal") == terminal and content["event"] == "terminal_data":
                assert content["sequence"] == getattr(self, "sequence", content["sequence"])
                self.sequence = content["sequence"] + len(buffers[0])
                seen += bytes(buffers[0])
        return seen

    def event_of(self, terminal, event):
        while True:
            content, _ = self.next()
            if content.get("terminal") == terminal and content.get("event") == event:
                return content


@pytest.fixture
def front_end(box):
    page = FrontEnd()

    def send(content, buffers):
        assert threading.current_thread() is not threading.main_thread() or "error" in content
        page.received.put((content, list(buffers)))

    page.comm_handler = CommHandler(Portal.current(), box.on_portal, send)
    page.comm_handler.start()
    yield page
    page.comm_handler.close()
