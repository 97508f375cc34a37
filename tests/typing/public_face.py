"""Examples of the public face, read by type checkers and never run.

``assert_type`` says what a caller's type checker must infer. A line with an ignore must be an
error: the settings of pyright report an ignore that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from sbx_jupyter import (
    AsyncSandbox,
    CommandHandle,
    CommandResult,
    ConnectionConfig,
    Context,
    Execution,
    FileBrowser,
    MetricsChart,
    Sandbox,
    SbxError,
    Terminal,
)

if TYPE_CHECKING:
    from sbx_jupyter.client.files.files import FileStream
    from sbx_jupyter.client.files.sync_files import SyncFileStream, SyncWatch
    from sbx_jupyter.client.files.watch import Watch
    from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput
    from sbx_jupyter.client.processes.sync_commands import SyncCommandHandle, SyncPtyHandle
    from sbx_jupyter.protocol.disk import SandboxOperation
    from sbx_jupyter.protocol.platform import (
        ListedSandbox,
        SandboxDetail,
        SandboxMetric,
        SnapshotInfo,
    )
    from sbx_jupyter.protocol.runtime import (
        EntryInfo,
        FilesystemEvent,
        ProcessInfo,
        Reading,
        WrittenFile,
    )


def make_sandboxes(config: ConnectionConfig) -> None:
    with Sandbox.create("base", timeout=60, envs={"A": "b"}, config=config) as box:
        assert_type(box, Sandbox)
        assert_type(box.sandbox_id, str)
        assert_type(box.template_id, str)
    assert_type(Sandbox.connect("id"), Sandbox)
    assert_type(Sandbox.list(metadata={"owner": "me"}), list[ListedSandbox])

    Sandbox.create(on_timeout="resume")  # pyright: ignore[reportArgumentType]
    Sandbox.create("base", 60)  # pyright: ignore[reportCallIssue]
    Sandbox.create(timeout="60")  # pyright: ignore[reportArgumentType]
    Sandbox.connect()  # pyright: ignore[reportCallIssue]


def live_with_a_sandbox(box: Sandbox) -> None:
    assert_type(box.info(), SandboxDetail)
    assert_type(box.is_running(), bool)
    assert_type(box.metrics(), Reading)
    assert_type(box.metrics_history(start=0), list[SandboxMetric])
    assert_type(box.snapshot("name"), SnapshotInfo)
    assert_type(box.operations(), list[SandboxOperation])
    assert_type(box.cancel_operation("id"), bool)
    assert_type(box.isolation, dict[str, Any] | None)
    assert_type(box.get_host(8000), str)
    assert_type(box.pause(memory=False), bool)
    assert_type(box.resume(timeout=60), None)
    assert_type(box.set_timeout(60), None)
    assert_type(box.kill(), bool)

    box.set_timeout()  # pyright: ignore[reportCallIssue]
    box.set_timeout("60")  # pyright: ignore[reportArgumentType]
    box.get_host("8000")  # pyright: ignore[reportArgumentType]


def use_files(box: Sandbox) -> None:
    files = box.files
    assert_type(files.read("a"), str)
    assert_type(files.read("a", "text"), str)
    assert_type(files.read("a", "bytes"), bytes)
    assert_type(files.read("a", format="stream"), SyncFileStream)
    assert_type(files.write("a", "text"), WrittenFile)
    assert_type(files.write("a", b"bytes", metadata={"k": "v"}), WrittenFile)
    assert_type(files.write_files({"a": "text", "b": b"bytes"}), list[WrittenFile])
    assert_type(files.list("a", depth=2), list[EntryInfo])
    assert_type(files.info("a"), EntryInfo)
    assert_type(files.exists("a"), bool)
    assert_type(files.make_dir("a"), bool)
    assert_type(files.rename("a", "b"), EntryInfo)
    assert_type(files.remove("a"), None)
    assert_type(files.download("a", "here"), int)
    assert_type(files.upload("here", "a"), WrittenFile)
    assert_type(files.download_url("a", expires_in=60), str)
    assert_type(files.upload_url("a"), str)
    with files.watch("a", recursive=True) as watch:
        assert_type(watch, SyncWatch)
        for event in watch:
            assert_type(event, FilesystemEvent)
    with files.read("a", "stream") as stream:
        for chunk in stream:
            assert_type(chunk, bytes)

    files.read("a", "lines")  # pyright: ignore[reportCallIssue, reportArgumentType]
    files.write("a", 1)  # pyright: ignore[reportArgumentType]
    files.list("a", True, "user")  # pyright: ignore[reportCallIssue]


def run_commands(box: Sandbox) -> None:
    commands = box.commands
    assert_type(commands.run("true"), CommandResult)
    assert_type(commands.run(["ls", "-l"], timeout=None), CommandResult)
    assert_type(commands.run("true", background=False), CommandResult)
    handle = commands.run("sleep 1", background=True, on_stdout=print)
    assert_type(handle, SyncCommandHandle)
    assert_type(handle.pid, int)
    assert_type(handle.exit_code, int | None)
    assert_type(handle.wait(), CommandResult)
    assert_type(handle.send_stdin(b"x"), None)
    assert_type(handle.kill(), bool)
    assert_type(commands.connect(1), SyncCommandHandle)
    assert_type(commands.list(), list[ProcessInfo])
    assert_type(commands.kill(1), bool)
    result = commands.run("true")
    assert_type(result.stdout, str)
    assert_type(result.exit_code, int)
    assert_type(result.error, str | None)

    commands.run("true").pid = 1  # pyright: ignore[reportAttributeAccessIssue]
    commands.run(1)  # pyright: ignore[reportArgumentType]
    result.exit_code = 1  # pyright: ignore[reportAttributeAccessIssue]


def run_code(box: Sandbox) -> None:
    context = box.create_code_context(cwd="/tmp", language="python")
    assert_type(context, Context)
    execution = box.run_code("1 + 1", context=context, on_stdout=print, timeout=10)
    assert_type(execution, Execution)
    assert_type(execution.text, str | None)
    assert_type(execution.logs.stdout, list[str])
    assert_type(box.list_code_contexts(), list[Context])
    assert_type(box.restart_code_context(context), None)
    assert_type(box.remove_code_context(context.id), None)

    box.run_code()  # pyright: ignore[reportCallIssue]
    box.run_code(1)  # pyright: ignore[reportArgumentType]


def open_terminals(box: Sandbox) -> None:
    with box.pty.create(cols=80, rows=24, envs={"A": "b"}) as terminal:
        assert_type(terminal, SyncPtyHandle)
        assert_type(terminal.send("ls\n"), None)
        assert_type(terminal.resize(100, 30), None)
        for output in terminal:
            assert_type(output, PtyOutput)
            assert_type(output.chunk, bytes)
            assert_type(output.sequence, int)
    assert_type(terminal.wait(), int)
    assert_type(terminal.kill(), bool)
    assert_type(box.pty.connect(1, replay_from=terminal.next_sequence), SyncPtyHandle)

    box.pty.create("80")  # pyright: ignore[reportArgumentType]
    terminal.resize(100)  # pyright: ignore[reportCallIssue]


async def use_it_asynchronously(config: ConnectionConfig) -> None:
    async with await AsyncSandbox.create(timeout=60, config=config) as box:
        assert_type(box, AsyncSandbox)
        assert_type(await box.info(), SandboxDetail)
        assert_type(await box.fork(2), list[AsyncSandbox])
        assert_type(await box.isolation(), dict[str, Any] | None)
        assert_type(await box.files.read("a"), str)
        assert_type(await box.files.read("a", "bytes"), bytes)
        async with await box.files.read("a", "stream") as stream:
            assert_type(stream, FileStream)
            async for chunk in stream:
                assert_type(chunk, bytes)
        async with await box.files.watch("a") as watch:
            assert_type(watch, Watch)
            async for event in watch:
                assert_type(event, FilesystemEvent)
        assert_type(await box.run_code("1"), Execution)
        assert_type(await box.create_code_context(), Context)
        assert_type(await box.commands.run("true"), CommandResult)
        handle = await box.commands.run("sleep 1", background=True)
        assert_type(handle, CommandHandle)
        assert_type(await handle.wait(), CommandResult)
        async with await box.pty.create() as terminal:
            assert_type(terminal, PtyHandle)
            async for output in terminal:
                assert_type(output, PtyOutput)
        assert_type(await box.kill(), bool)

    assert_type(await AsyncSandbox.connect("id"), AsyncSandbox)
    assert_type(await AsyncSandbox.list(), list[ListedSandbox])
    with await AsyncSandbox.connect("id"):  # pyright: ignore[reportGeneralTypeIssues]
        pass
    await AsyncSandbox.create(box.snapshot())  # pyright: ignore[reportArgumentType]


def show_widgets(box: Sandbox, other: AsyncSandbox) -> None:
    assert_type(FileBrowser(box, path="/"), FileBrowser)
    assert_type(MetricsChart(other), MetricsChart)
    terminal = Terminal(box)
    assert_type(terminal, Terminal)
    assert_type(terminal.close(), None)

    FileBrowser()  # pyright: ignore[reportCallIssue]
    MetricsChart("id")  # pyright: ignore[reportArgumentType]
    Terminal(box, pid="1")  # pyright: ignore[reportArgumentType]


def configure_and_fail() -> None:
    config = ConnectionConfig(api_url="http://127.0.0.1:1", api_key="key", request_timeout=10)
    assert_type(config.request_timeout, float)
    assert_type(ConnectionConfig.from_env(), ConnectionConfig)
    try:
        Sandbox.create(config=config)
    except SbxError as error:
        assert_type(error.code, str)
        assert_type(error.message, str)

    ConnectionConfig(api_url="http://127.0.0.1:1")  # pyright: ignore[reportCallIssue]
    config.api_key = "other"  # pyright: ignore[reportAttributeAccessIssue]
    SbxError()  # pyright: ignore[reportCallIssue]
