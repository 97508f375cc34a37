"""Kernels in sandboxes, started by ``jupyter_client`` as every front end does it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig
from sbx_jupyter.kernel.output_limit import MAX_TEXT
from tests.engine_process import CHECKOUT
from tests.waiting import async_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_client.asynchronous.client import AsyncKernelClient

    from tests.engine_process import EngineProcess

SPECS = CHECKOUT / "sbx_jupyter" / "kernel"


class Specs(KernelSpecManager):
    """The specification of this checkout, under its name."""

    def find_kernel_specs(self) -> dict[str, str]:
        return {"sbx-python3": str(SPECS / "spec")}


@pytest.fixture
def config(shared_engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> ConnectionConfig:
    monkeypatch.setenv("E2B_API_URL", shared_engine.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", shared_engine.url)
    monkeypatch.setenv("E2B_API_KEY", shared_engine.key)
    return ConnectionConfig.from_env()


@pytest.fixture(autouse=True)
def leave_no_kernels(config: ConnectionConfig) -> Iterator[None]:
    yield
    left = asyncio.run(AsyncSandbox.list(config=config))
    assert not [item.sandbox_id for item in left if is_a_kernels(item)]


class Running:
    """A kernel and a client of it."""

    def __init__(self, manager: AsyncKernelManager, client: AsyncKernelClient) -> None:
        self.manager = manager
        self.client = client

    @property
    def sandbox_id(self) -> str:
        provisioner: Any = self.manager.provisioner
        return provisioner._sandbox.sandbox.sandbox_id

    async def run(self, code: str, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The reply's content, and the messages that came meanwhile."""
        seen: list[dict[str, Any]] = []
        options = {"allow_stdin": False, "timeout": 30} | options
        reply = await self.client.execute_interactive(code, output_hook=seen.append, **options)
        return reply["content"], seen

    async def text(self, code: str) -> str:
        """What the code printed."""
        reply, seen = await self.run(code)
        assert reply["status"] == "ok", reply
        streams = [m["content"]["text"] for m in seen if m["msg_type"] == "stream"]
        return "".join(streams).strip()


@contextlib.asynccontextmanager
async def running_kernel() -> AsyncIterator[Running]:
    manager = AsyncKernelManager(kernel_name="sbx-python3", kernel_spec_manager=Specs())
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        yield Running(manager, client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


@pytest.fixture
async def kernel(config: ConnectionConfig) -> AsyncIterator[Running]:
    async with running_kernel() as running:
        yield running


async def test_code_runs_in_the_sandbox_and_sees_nothing_of_this_process(kernel: Running):
    os.environ["SBX_TEST_SECRET"] = "secret"
    try:
        said = await kernel.text(
            "import os, socket; print(socket.gethostname(), sorted(os.environ))"
        )
    finally:
        del os.environ["SBX_TEST_SECRET"]
    assert kernel.sandbox_id in said
    assert "SBX_TEST_SECRET" not in said
    assert "E2B_API_KEY" not in said


async def test_the_sandbox_ends_with_the_kernel(config: ConnectionConfig):
    async with running_kernel() as running:
        sandbox_id = running.sandbox_id
        assert sandbox_id in [item.sandbox_id for item in await AsyncSandbox.list(config=config)]
        folder = os.path.dirname(running.manager.ip)
        assert os.path.isdir(folder)
    assert sandbox_id not in [item.sandbox_id for item in await AsyncSandbox.list(config=config)]
    assert not os.path.exists(folder)


ENDS_WITHOUT_A_WORD = f"""
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
manager = KernelManager()
manager._kernel_spec = KernelSpec.from_resource_dir({str(SPECS / "spec")!r})
manager.start_kernel()
print(manager.provisioner.sandbox_of_kernel)
"""


@pytest.mark.long
async def test_the_sandbox_ends_with_a_program_that_does_not_end_its_kernel(
    config: ConnectionConfig,
):
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ENDS_WITHOUT_A_WORD, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await ran.communicate()
    assert ran.returncode == 0
    assert said.strip().startswith(b"i")
    left = [item.sandbox_id for item in await AsyncSandbox.list(config=config)]
    assert said.decode().strip() not in left


async def test_a_restart_keeps_the_files_and_forgets_the_variables(kernel: Running):
    await kernel.text("x = 1; open('kept.txt', 'w').write('kept')")
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)
    assert await kernel.text("print(open('kept.txt').read(), 'x' in globals())") == "kept False"


@pytest.mark.long
async def test_forks_have_random_numbers_of_their_own(kernel: Running):
    code = "import random, numpy; print(random.random(), numpy.random.random())"
    first = (await kernel.text(code)).split()
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)
    second = (await kernel.text(code)).split()
    assert len({*first, *second}) == 4


async def test_a_kernel_sees_nothing_of_the_process_that_it_was_forked_from(kernel: Running):
    code = "import sys; print(sys.argv[0], '/tmp' in sys.path, __name__)"
    assert await kernel.text(code) == "ipykernel_launcher False __main__"


async def test_an_interrupt_reaches_the_code(kernel: Running):
    code = "import time\nprint('on', flush=True)\ntime.sleep(60)"
    request = kernel.client.execute(code)
    assert "on" in await said_below(kernel, request)
    begun = time.monotonic()
    await kernel.manager.interrupt_kernel()
    assert (await reply_to(kernel, request))["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - begun < 30, "it slept to its end"


async def test_code_can_ask_for_input(kernel: Running):
    def answer(_: dict[str, Any]) -> None:
        kernel.client.input("Ada")

    reply, seen = await kernel.run(
        "print('Hello', input('who? '))", allow_stdin=True, stdin_hook=answer
    )
    assert reply["status"] == "ok"
    assert "Hello Ada" in "".join(m["content"].get("text", "") for m in seen)


@pytest.mark.long
async def test_a_kernel_that_dies_is_noticed_and_can_be_restarted(kernel: Running):
    request = kernel.client.execute("import os; os._exit(7)")
    provisioner: Any = kernel.manager.provisioner
    await async_until(lambda: provisioner._sandbox.exit_code is not None)
    assert await provisioner.poll() == 7
    assert "The kernel ended with status 7" in await said_below(kernel, request)
    assert not await kernel.manager.is_alive()
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)
    assert await kernel.text("print(2)") == "2"


async def said_below(kernel: Running, request: str) -> str:
    """The next text below the cell of a request."""
    while True:
        message = await kernel.client.get_iopub_msg(timeout=30)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
            return message["content"]["text"]


async def reply_to(kernel: Running, request: str) -> dict[str, Any]:
    """The content of the reply to a request."""
    while True:
        message = await kernel.client.get_shell_msg(timeout=30)
        if message["parent_header"].get("msg_id") == request:
            return message["content"]


@pytest.mark.long
async def test_a_kernel_that_is_killed_says_that_memory_is_the_usual_reason(kernel: Running):
    request = kernel.client.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    said = await said_below(kernel, request)
    assert re.search(r"ran out of memory \(\d+ MiB\).* The files are kept", said), said


@pytest.mark.long
async def test_a_sandbox_that_is_paused_in_mid_cell_says_that_its_files_are_kept(kernel: Running):
    request = kernel.client.execute("import time; print('on', flush=True); time.sleep(60)")
    assert "on" in await said_below(kernel, request)
    sandbox = await AsyncSandbox.connect(kernel.sandbox_id)
    await sandbox.pause(memory=False)
    await sandbox.aclose()
    assert "Its files are kept" in await said_below(kernel, request)


@pytest.mark.long
async def test_files_outlive_a_pause_and_a_restart_in_a_larger_sandbox(kernel: Running):
    await kernel.text("open('kept.txt', 'w').write('kept')")
    before = kernel.sandbox_id
    sandbox = await AsyncSandbox.connect(before)
    snapshots = [item.snapshot_id async for item in sandbox.platform.snapshots()]
    await sandbox.pause(memory=False)
    provisioner: Any = kernel.manager.provisioner
    await async_until(lambda: provisioner._sandbox.zygote.is_lost)
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)
    assert await kernel.text("print(open('kept.txt').read())") == "kept"
    assert kernel.sandbox_id == before

    made, has_files = await provisioner.replace_sandbox(2048, None)
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)

    assert (kernel.sandbox_id, has_files) == (made, True)
    assert await kernel.text("print(open('kept.txt').read())") == "kept"
    sandboxes = {item.sandbox_id: item.memory_mb for item in await AsyncSandbox.list()}
    assert sandboxes.get(made) == 2048
    assert before not in sandboxes

    made, has_files = await provisioner.replace_sandbox(None, None, keep_files=False)
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)

    assert (kernel.sandbox_id, has_files) == (made, False)
    assert await kernel.text("import os; print(os.path.exists('kept.txt'))") == "False"
    assert [item.snapshot_id async for item in sandbox.platform.snapshots()] == snapshots
    await sandbox.aclose()


@pytest.mark.long
async def test_a_sandbox_that_has_ended_is_made_again_without_its_files(kernel: Running):
    provisioner: Any = kernel.manager.provisioner
    request = kernel.client.execute("import time; print('on', flush=True); time.sleep(60)")
    assert "on" in await said_below(kernel, request)
    sandbox = await AsyncSandbox.connect(kernel.sandbox_id)
    await sandbox.set_timeout(1)
    await sandbox.aclose()
    assert "reached its time limit" in await said_below(kernel, request)

    made, has_files = await provisioner.replace_sandbox(2048, None)
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)

    assert (kernel.sandbox_id, has_files) == (made, False)
    assert await kernel.text("print(1)") == "1"


async def test_the_end_of_the_sandbox_in_mid_cell_is_said(kernel: Running):
    request = kernel.client.execute("import time; print('on', flush=True); time.sleep(60)")
    assert "on" in await said_below(kernel, request)
    sandbox = await AsyncSandbox.connect(kernel.sandbox_id)
    await sandbox.kill()
    await sandbox.aclose()
    assert "has ended, and its files with it" in await said_below(kernel, request)
    await kernel.manager.restart_kernel(now=True)
    await kernel.client.wait_for_ready(timeout=60)
    assert await kernel.text("print(3)") == "3"


@pytest.mark.long
async def test_what_the_kernel_sends_by_itself_is_kept_from_the_page(kernel: Running):
    code = """
from comm import create_comm
from IPython.display import HTML, Javascript, display
create_comm(target_name="jupyter.widget", data={"state": {"_esm": "alert(1)"}})
display(HTML("<script>alert(1)</script>"), Javascript("alert(1)"))
"""
    reply, seen = await kernel.run(code)
    assert reply["status"] == "ok", reply
    comms = [m["content"] for m in seen if m["msg_type"].startswith("comm")]
    assert [content["comm_id"] for content in comms] == ["sbx-jupyter:widgets"]
    shown = [m["content"]["data"]["text/html"] for m in seen if m["msg_type"] == "display_data"]
    assert len(shown) == 2
    assert all(html.startswith("<iframe") and 'sandbox="allow-scripts"' in html for html in shown)


async def test_messages_with_a_forged_signature_are_dropped(kernel: Running):
    code = """
import zmq
from ipykernel.kernelapp import IPKernelApp
socket = IPKernelApp.instance().iopub_socket
for frames in ([b"x"], [b"<IDS|MSG>", b"bad", b"{}", b"{}", b"{}", b"{}"], [b"<IDS|MSG>"] * 9):
    socket.send_multipart(frames)
print("sent")
"""
    assert await kernel.text(code) == "sent"
    provisioner: Any = kernel.manager.provisioner
    # The first has no parts to be checked, and stays in the sandbox.
    await async_until(lambda: provisioner._sandbox._running.relay.dropped >= 2)
    assert await kernel.text("print(1)") == "1"


@pytest.mark.long
async def test_a_flood_of_output_leaves_the_kernel_usable(kernel: Running):
    said = await kernel.text("for _ in range(2000): print('x' * 10_000)\nprint('the end')")
    assert len(said) < MAX_TEXT + 20_000
    assert "[cut: 1" in said
    assert said.endswith("the end")
    assert await kernel.text("print(1)") == "1"


async def test_a_kernel_that_cannot_start_says_why(config: ConnectionConfig):
    manager = AsyncKernelManager(kernel_name="sbx-python3", kernel_spec_manager=Specs())
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = ["no-such-program", "{connection_file}"]
    with pytest.raises(RuntimeError, match="there is no no-such-program in the sandbox"):
        await manager.start_kernel()
    assert not [item for item in await AsyncSandbox.list(config=config) if is_a_kernels(item)]


def is_a_kernels(item: Any) -> bool:
    return (item.metadata or {}).get("name") == "kernel"


@pytest.mark.usefixtures("config")
async def test_a_notebook_is_executed_by_nbclient(tmp_path: Any):
    cells = [nbformat.v4.new_code_cell(source) for source in ("x = 20", "print(x + 1)")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    manager = AsyncKernelManager(kernel_name="sbx-python3", kernel_spec_manager=Specs())
    client = NotebookClient(
        notebook, km=manager, timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    )
    await client.async_execute()
    await manager.shutdown_kernel(now=True)
    assert notebook.cells[1]["outputs"][0]["text"] == "21\n"
