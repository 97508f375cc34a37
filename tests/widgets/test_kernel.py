"""A widget in a real kernel stays live while a cell runs, where the kernel has subshells."""

from __future__ import annotations

import queue
import time

import pytest
from jupyter_client.manager import start_new_kernel

from tests.engine_process import CHECKOUT
from tests.waiting import PATIENCE, until


@pytest.fixture
def kernel(engine, monkeypatch):
    monkeypatch.setenv("SBX_DATA_DIR", str(engine.data_dir))
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    for name in ("E2B_API_URL", "E2B_DOMAIN", "E2B_SANDBOX_URL"):
        monkeypatch.delenv(name, raising=False)
    manager, client = start_new_kernel()
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


class Page:
    """What JupyterLab does with one widget: comm messages through a subshell of its own."""

    def __init__(self, client, comm_id, subshell_id):
        self.client = client
        self.comm_id = comm_id
        self.subshell_id = subshell_id
        self.output = b""
        self._seq = 0

    def send(self, op, *buffers, **fields):
        content = {"view": "page", "seq": self._seq, "op": op, "id": self._seq + 1, **fields}
        self._seq += 1
        message = self.client.session.msg(
            "comm_msg",
            {"comm_id": self.comm_id, "data": {"method": "custom", "content": content}},
        )
        message["header"]["subshell_id"] = self.subshell_id
        message["buffers"] = list(buffers)
        self.client.shell_channel.send(message)
        return content["id"]

    def until(self, wanted, patience):
        """Read what the kernel publishes; whether ``wanted`` came in time."""
        deadline = time.monotonic() + patience
        while wanted not in self.output and (left := deadline - time.monotonic()) > 0:
            try:
                message = self.client.get_iopub_msg(timeout=left)
            except queue.Empty:
                break
            if message["content"].get("comm_id") == self.comm_id and message["buffers"]:
                self.output += b"".join(bytes(b) for b in message["buffers"])
        return wanted in self.output


def run(client, code):
    """Execute a cell and give back the comms that it opened."""
    opened = []

    def watch(message):
        if message["msg_type"] == "comm_open":
            opened.append(message["content"])
        assert message["msg_type"] != "error", message["content"]

    client.execute_interactive(code, timeout=PATIENCE, output_hook=watch)
    return opened


def subshell(client):
    client.control_channel.send(client.session.msg("create_subshell_request", {}))
    reply = client.get_control_msg(timeout=PATIENCE)
    return reply["content"]["subshell_id"]


@pytest.fixture
def busy(kernel, tmp_path):
    """Run a cell until it is told to end; its number and what tells it."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    cell = kernel.execute(
        "import pathlib, time\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(end)!r}).exists(): time.sleep(0.05)"
    )
    until(begun.exists)
    yield cell, end.touch
    end.touch()


@pytest.fixture
def page(kernel):
    run(kernel, "from sbx_jupyter import Sandbox, Terminal\nbox = Sandbox.create(timeout=600)")
    comms = run(kernel, "widget = Terminal(box)")
    [comm] = [c for c in comms if c["data"]["state"].get("_esm")]
    page = Page(kernel, comm["comm_id"], subshell(kernel))
    page.send("terminal_open", cols=80, rows=24, pid=comm["data"]["state"]["pid"])
    page.send("terminal_input", b"echo al''ive\n", terminal=1)
    assert page.until(b"alive", PATIENCE)
    yield page
    run(kernel, "box.kill()")


def test_keys_come_back_while_a_cell_runs(kernel, page, busy):
    cell, end = busy
    for number in range(5):
        page.send("terminal_input", b"echo key-%d''!\n" % number, terminal=1)
        assert page.until(b"key-%d!" % number, PATIENCE)

    end()
    reply = kernel.get_shell_msg(timeout=PATIENCE)
    while reply["parent_header"].get("msg_id") != cell:
        reply = kernel.get_shell_msg(timeout=PATIENCE)
    assert reply["content"]["status"] == "ok"


def test_output_keeps_coming_while_a_cell_runs(page, busy):
    page.send(
        "terminal_input", b"for i in $(seq 1 8); do echo tick-$i-; sleep 0.3; done\n", terminal=1
    )

    assert page.until(b"tick-8-", PATIENCE)
