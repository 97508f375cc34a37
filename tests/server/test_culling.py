"""Culling of idle kernels and servers waits for commands that run in sandboxes."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
import pytest_asyncio

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, PlatformClient
from sbx_jupyter.client.files.files import Files
from sbx_jupyter.server.running_commands import CullingGuard, foreground_program, has_command
from tests.waiting import async_until


@pytest_asyncio.fixture
async def inside(sandbox, engine):
    config = ConnectionConfig.from_connection_file(engine.connection)
    async with PlatformClient(config) as platform:
        yield await AsyncSandbox.connect(sandbox, platform=platform)


@pytest_asyncio.fixture
async def is_used(sandbox, api, jp_serverapp):
    """Whether a command runs in the sandbox, as the server sees it."""
    extension = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    runtime = await extension.deployments.default.runtime(sandbox)

    async def ask():
        return await has_command(runtime)

    return ask


async def test_a_command_counts_while_it_runs(inside, is_used):
    assert not await is_used()
    command = await inside.commands.run("exec sleep 600", background=True)

    assert await is_used()
    await command.kill()
    await command.wait()
    assert not await is_used()


async def test_a_terminal_counts_while_a_program_is_in_its_foreground(inside, is_used):
    terminal = await inside.pty.create(tag="jupyter-terminal")
    screen = asyncio.create_task(terminal.wait())

    async def is_at_prompt():
        return not await is_used()

    await async_until(is_at_prompt)
    await terminal.send("sleep 600\n")
    await async_until(is_used)
    await terminal.send(b"\x03")
    await async_until(is_at_prompt)
    await terminal.kill()
    await screen


async def test_what_belongs_to_a_kernel_does_not_count(inside, is_used):
    command = await inside.commands.start("exec sleep 600", tag="_kernel", timeout=0)

    assert not await is_used()
    await command.kill()


@pytest.mark.parametrize(
    ("forged", "seen"),
    [
        ({"stat": b"1 (sh) S 1 1 1 1 2" + b" 1" * 30, "comm": b"vi\n"}, "vi"),
        ({"stat": b"1 (sh) S 1 1 1 1 2" + b" 1" * 30, "comm": b"v" * 5000}, None),
        ({"stat": b"1 (sh) S 1 1 1 1 2" + b" 1" * 5000, "comm": b"vi\n"}, None),
    ],
)
async def test_a_forged_file_in_proc_is_read_up_to_a_size(inside, forged, seen):
    class ForgedFiles(Files):
        async def _open(self, path, user, **options):
            return await super()._open(path.rpartition("/")[2], user, **options)

    await inside.files.write_files(forged)

    assert await foreground_program(ForgedFiles(inside.files._runtime), 1) == seen


class Manager:
    """Jupyter's kernel manager, as far as culling goes, with one kernel in a sandbox."""

    def __init__(self, sandbox_id):
        async def info():
            return {"sandbox_id": sandbox_id}

        self.kernel = SimpleNamespace(
            last_activity="long ago", provisioner=SimpleNamespace(get_provisioner_info=info)
        )
        self.culled = []

    def list_kernel_ids(self):
        return ["k1"]

    def get_kernel(self, _):
        return self.kernel

    async def cull_kernel_if_idle(self, kernel_id):
        if self.kernel.last_activity == "long ago":
            self.culled.append(kernel_id)


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_kernel_is_culled_unless_a_command_runs_in_its_sandbox(
    inside, sandbox, api, jp_serverapp, is_running
):
    await api("GET", "sandboxes")
    extension = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app
    manager = Manager(sandbox)
    guard = CullingGuard(manager, extension.deployments, tuple, logging.getLogger(__name__))
    if is_running:
        await inside.commands.run("exec sleep 600", background=True)

    guard.start(lambda: None)
    await manager.cull_kernel_if_idle("k1")

    assert manager.culled == ([] if is_running else ["k1"])
    assert await guard.is_in_use() is is_running
    await guard.aclose()


async def test_sandboxes_that_end_with_the_server_count_until_they_are_gone(
    inside, sandbox, api, jp_serverapp
):
    await api("GET", "sandboxes")
    connection = jp_serverapp.extension_manager.extension_points["sbx_jupyter"].app.deployments
    manager = SimpleNamespace(list_kernel_ids=list)
    guard = CullingGuard(manager, connection, connection.default.seen, logging.getLogger(__name__))
    await inside.commands.run("exec sleep 600", background=True)

    assert await guard.is_in_use()
    await inside.kill()
    connection.default.forget_tokens(sandbox)
    assert not await guard.is_in_use()
    assert sandbox not in connection.default.seen()
