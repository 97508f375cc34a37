"""The generated clients inside e2b, with the binary codec that they were generated for."""

from __future__ import annotations

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.filesystem import filesystem_connect
from e2b.envd.filesystem import filesystem_pb as fs
from e2b.envd.process import process_connect
from e2b.envd.process import process_pb as ps
from protobuf import Oneof


@pytest.fixture
def headers(sandbox):
    return {
        "e2b-sandbox-id": sandbox.sandbox_id,
        "e2b-sandbox-port": "49983",
        "x-access-token": sandbox._envd_access_token,
    }


@pytest.fixture
def filesystem(e2b_environment):
    url = e2b_environment["E2B_SANDBOX_URL"]
    with filesystem_connect.FilesystemClientSync(url, send_compression=None) as client:
        yield client


@pytest.fixture
def process(e2b_environment):
    url = e2b_environment["E2B_SANDBOX_URL"]
    with process_connect.ProcessClientSync(url, send_compression=None) as client:
        yield client


def start(process, headers, command, **fields):
    config = ps.ProcessConfig(cmd="/bin/bash", args=["-c", command])
    return process.start(ps.StartRequest(process=config, **fields), headers=headers)


def named(pid):
    return ps.ProcessSelector(selector=Oneof(field="pid", value=pid))


def test_entries_are_made_listed_described_and_removed(filesystem, headers):
    made = filesystem.make_dir(fs.MakeDirRequest(path="made"), headers=headers).entry
    listed = filesystem.list_dir(fs.ListDirRequest(path="/home/user"), headers=headers).entries

    assert (made.type, made.path) == (fs.FileType.DIRECTORY, "/home/user/made")
    assert made in listed
    assert filesystem.stat(fs.StatRequest(path="made"), headers=headers).entry == made
    filesystem.remove(fs.RemoveRequest(path="made"), headers=headers)
    with pytest.raises(ConnectError) as caught:
        filesystem.stat(fs.StatRequest(path="made"), headers=headers)
    assert caught.value.code == Code.NOT_FOUND


def test_output_of_both_kinds_and_the_end_arrive(process, headers):
    answers = start(process, headers, "printf a; printf b >&2; exit 3")
    events = [answer.event.event for answer in answers]

    assert events[0].field == "start"
    chunks = [event.value.output for event in events if event.field == "data"]
    assert sorted((chunk.field, bytes(chunk.value)) for chunk in chunks) == [
        ("stderr", b"b"),
        ("stdout", b"a"),
    ]
    assert events[-1].field == "end"
    assert (events[-1].value.exit_code, events[-1].value.exited) == (3, True)


def test_a_failing_stream_ends_with_its_code(process, headers):
    with pytest.raises(ConnectError) as caught:
        list(process.connect(ps.ConnectRequest(process=named(999999)), headers=headers))

    assert caught.value.code == Code.NOT_FOUND
    assert caught.value.message == "process with pid 999999 not found"


def test_input_is_sent_by_messages_and_by_a_stream(process, headers):
    events = start(process, headers, "read one; read two; echo $one-$two", stdin=True)
    pid = next(events).event.event.value.pid
    one, two = (
        ps.ProcessInput(input=Oneof(field="stdin", value=line)) for line in (b"one\n", b"two\n")
    )
    streamed = [
        Oneof(field="start", value=ps.StreamInputRequest.StartEvent(process=named(pid))),
        Oneof(field="data", value=ps.StreamInputRequest.DataEvent(input=two)),
    ]

    process.send_input(ps.SendInputRequest(process=named(pid), input=one), headers=headers)
    answer = process.stream_input(
        (ps.StreamInputRequest(event=event) for event in streamed), headers=headers
    )

    assert answer == ps.StreamInputResponse()
    assert next(events).event.event.value.output.value == b"one-two\n"
    assert next(events).event.event.value.exit_code == 0


def test_a_terminal_is_listed_resized_and_killed(process, headers):
    size = ps.PTY.Size(cols=91, rows=17)
    events = start(process, headers, "sleep 60", pty=ps.PTY(size=size), tag="shell")
    pid = next(events).event.event.value.pid

    (listed,) = process.list(ps.ListRequest(), headers=headers).processes
    update = ps.UpdateRequest(process=named(pid), pty=ps.PTY(size=ps.PTY.Size(cols=5, rows=5)))
    process.update(update, headers=headers)
    kill = ps.SendSignalRequest(process=named(pid), signal=ps.Signal.SIGKILL)
    process.send_signal(kill, headers=headers)

    assert (listed.pid, listed.tag, list(listed.config.args)) == (pid, "shell", ["-c", "sleep 60"])
    end = [answer.event.event.value for answer in events][-1]
    assert (end.exit_code, end.exited, end.status) == (-1, False, "signal: killed")


def test_a_watch_tells_of_changes_with_their_entries(filesystem, headers):
    request = fs.WatchDirRequest(path="/home/user", include_entry=True)
    events = filesystem.watch_dir(request, headers=headers)

    assert next(events).event.field == "start"
    filesystem.make_dir(fs.MakeDirRequest(path="made"), headers=headers)
    event = next(events).event

    assert event.field == "filesystem"
    assert (event.value.name, event.value.type) == ("made", fs.EventType.CREATE)
    assert event.value.entry.path == "/home/user/made"
    events.close()
