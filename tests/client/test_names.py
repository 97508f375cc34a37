"""Who knows the public ``e2b`` package is at home: the same names, or a reason."""

from __future__ import annotations

import inspect

import e2b
import pytest
from e2b.sandbox_async.commands.command import Commands as TheirCommands
from e2b.sandbox_async.commands.pty import Pty as TheirPtys
from e2b.sandbox_async.filesystem.filesystem import Filesystem as TheirFiles
from e2b.sandbox_async.git import Git as TheirGit

from sbx_jupyter.client import AsyncSandbox, Sandbox
from sbx_jupyter.client.files.files import Files
from sbx_jupyter.client.files.sync_files import SyncFiles
from sbx_jupyter.client.git.git import Git
from sbx_jupyter.client.git.sync_git import SyncGit
from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.client.processes.pty import Ptys
from sbx_jupyter.client.processes.sync_commands import SyncCommands, SyncPtys

ABSENT = {
    "beta_pause": "the older name of pause",
    "connection_config": "sandbox.platform.config of AsyncSandbox; Sandbox keeps its key to itself",
    "default_mcp_template": "a constant of the hosted service",
    "default_sandbox_timeout": "a default of the arguments of create",
    "default_template": "a default of the arguments of create",
    "envd_api_url": "an address of the protocol; get_host and get_url are for users",
    "envd_direct_url": "an address of the protocol, like envd_api_url",
    "get_mcp_token": "no servers for MCP in sandboxes yet",
    "get_mcp_url": "no servers for MCP in sandboxes yet",
    "mcp_port": "no servers for MCP in sandboxes yet",
    "sandbox_domain": "info().domain",
    "stream_input": "send_stdin takes input of any size, piece by piece",
    "traffic_access_token": "record.traffic_access_token of AsyncSandbox",
}
ATTRIBUTES = {"commands", "files", "git", "pty", "sandbox_id"}
"""Set when a sandbox is made, so not in the class."""

PAIRS = [
    (e2b.AsyncSandbox, AsyncSandbox),
    (e2b.Sandbox, Sandbox),
    (TheirFiles, Files),
    (TheirFiles, SyncFiles),
    (TheirCommands, Commands),
    (TheirCommands, SyncCommands),
    (TheirPtys, Ptys),
    (TheirPtys, SyncPtys),
    (TheirGit, Git),
    (TheirGit, SyncGit),
]


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_every_public_name_has_its_counterpart_or_a_reason(theirs, ours):
    lacking = public(theirs) - public(ours) - ATTRIBUTES

    assert lacking <= ABSENT.keys()


def test_no_reason_is_out_of_date():
    lacking = {name for theirs, ours in PAIRS for name in public(theirs) - public(ours)}

    assert ABSENT.keys() <= lacking


@pytest.mark.parametrize("ours", [ours for _, ours in PAIRS])
def test_every_public_method_has_a_docstring(ours):
    methods = {name: getattr(ours, name) for name in public(ours)}

    assert not [n for n, one in methods.items() if inspect.isfunction(one) and not one.__doc__]


@pytest.mark.parametrize(
    ("waiting", "blocking"),
    [
        (AsyncSandbox, Sandbox),
        (Files, SyncFiles),
        (Commands, SyncCommands),
        (Ptys, SyncPtys),
        (Git, SyncGit),
    ],
)
def test_both_faces_have_the_same_names(waiting, blocking):
    own = {"aclose", "start", "port_address", "start_code"}

    assert public(waiting) - public(blocking) <= own


async def test_the_names_work(sandbox):
    assert (await sandbox.get_info()).sandbox_id == sandbox.sandbox_id
    assert await sandbox.get_metrics() is not None
    assert (await sandbox.files.get_info("/etc")).name == "etc"
    made = await sandbox.create_snapshot("names")
    assert made.snapshot_id in [each.snapshot_id for each in await sandbox.list_snapshots()]
    assert await sandbox.delete_snapshot(made.snapshot_id)
    terminal = await sandbox.pty.create(80, 24)
    await sandbox.pty.resize(terminal.pid, 100, 30)
    await sandbox.pty.send_stdin(terminal.pid, "exit 3\n")
    assert await terminal.wait() == 3
    assert await sandbox.pty.kill(terminal.pid) is False
