"""Protocol Buffers by the numbers of the interface, byte for byte and against other readers."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pytest
from e2b.envd.filesystem import filesystem_pb
from e2b.envd.process import process_pb
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import binary
from sbx_jupyter.protocol import runtime as rt


def test_a_start_request_is_read_from_its_bytes() -> None:
    raw = (
        b"\x0a\x15"
        b"\x0a\x03cat\x12\x02-n\x1a\x06\x0a\x01A\x12\x01B\x22\x02/x"
        b"\x12\x06\x0a\x04\x08\x50\x10\x18"
        b"\x1a\x01t\x20\x00"
    )

    assert binary.decode(rt.StartRequest, raw) == rt.StartRequest(
        process=rt.ProcessConfig(cmd="cat", args=["-n"], envs={"A": "B"}, cwd="/x"),
        pty=rt.Pty(size=rt.PtySize(cols=80, rows=24)),
        tag="t",
        stdin=False,
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x0a\x02\x08\x07", rt.ProcessSelector(pid=7)),
        (b"\x0a\x03\x12\x01t", rt.ProcessSelector(tag="t")),
        (b"", rt.ProcessSelector()),
    ],
)
def test_a_process_is_selected_by_one_of_two(raw: bytes, expected: rt.ProcessSelector) -> None:
    assert binary.decode(rt.ConnectRequest, raw).process == expected


def test_data_of_an_input_stream_has_the_number_two_inside() -> None:
    raw = b"\x12\x07\x12\x05\x0a\x03two"

    found = binary.decode(rt.StreamInputRequest, raw)

    assert found.data == rt.StreamInputData(input=rt.ProcessInput(stdin=b"two"))


def test_fields_that_nobody_knows_are_passed_over() -> None:
    assert binary.decode(rt.PathRequest, b"\x0a\x01/\xf8\x06\x05").path == "/"


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\x05x", b"\x0a\x02\xff\xff"])
def test_what_is_no_message_is_an_invalid_argument(raw: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        binary.decode(rt.PathRequest, raw)


@given(st.binary(max_size=60), st.sampled_from(list(binary._MESSAGES)))
def test_any_bytes_are_a_message_or_an_invalid_argument(raw: bytes, kind: type) -> None:
    try:
        found = binary.decode(kind, raw)
    except InvalidArgumentError:
        return
    assert isinstance(found, kind)


def test_every_member_of_an_entry_reaches_another_reader() -> None:
    modified = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC)
    entry = rt.EntryInfo(
        name="l",
        type=rt.DIRECTORY,
        path="/l",
        size=5_000_000_000,
        mode=0o755,
        permissions="Lrwxrwxrwx",
        owner="user",
        group="users",
        modified_time=modified,
        symlink_target="/d",
        metadata={"k": "v"},
        is_symlink=True,
    )

    raw = binary.encode(rt.ListDirResponse(entries=[entry]))

    (found,) = filesystem_pb.ListDirResponse.from_binary(raw).entries
    for name in ("name", "path", "size", "mode", "permissions", "owner", "group"):
        assert getattr(found, name) == getattr(entry, name)
    assert found.type == filesystem_pb.FileType.DIRECTORY
    assert found.modified_time is not None
    assert found.modified_time.to_datetime() == modified
    assert (found.symlink_target, found.metadata, found.is_symlink) == ("/d", {"k": "v"}, True)


def test_a_negative_exit_code_and_an_empty_event_reach_another_reader() -> None:
    end = rt.EndEvent(exit_code=-1, status="signal: killed", error="signal: killed")

    ended = process_pb.StartResponse.from_binary(
        binary.encode(rt.ProcessEventResponse(event=rt.ProcessEvent(end=end)))
    )
    pinged = process_pb.StartResponse.from_binary(
        binary.encode(rt.ProcessEventResponse(event=rt.ProcessEvent(keepalive=rt.Empty())))
    )

    assert ended.event is not None
    assert ended.event.event is not None
    assert ended.event.event.field == "end"
    assert ended.event.event.value.exit_code == -1
    assert pinged.event is not None
    assert pinged.event.event is not None
    assert pinged.event.event.field == "keepalive"


def test_every_record_of_the_runtime_has_its_numbers() -> None:
    records = {
        found
        for found in vars(rt).values()
        if isinstance(found, type) and issubclass(found, rt.Message) and found is not rt.Message
    }

    assert records == set(binary._MESSAGES)
    for record in records:
        own = set(record.__struct_fields__) - {"sequence"}  # ours alone, in JSON alone
        assert own == set(binary._fields(record.__name__))


def test_whoever_speaks_json_does_not_load_the_library() -> None:
    code = (
        "import sys, sbx_jupyter.service.app, sbx_jupyter.engine.engine;"
        "sys.exit(any(name.startswith('google') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["stdout", "stderr", "pty"])
@pytest.mark.parametrize("size", [1, 100, 123, 124, 16_000, 16_384, 49_152, 2_097_152])
def test_output_joined_from_bytes_is_what_the_library_writes(kind: str, size: int) -> None:
    chunk = bytes(size)
    event = rt.ProcessEvent(data=rt.DataEvent(**{kind: chunk}))

    joined = binary.output_prefix(kind, size) + chunk

    assert joined == binary.encode(rt.ProcessEventResponse(event=event))
