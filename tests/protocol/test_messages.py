"""Answers in proto3 JSON are read leniently, and messages written plainly (interface 3.1)."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import messages, runtime


def test_names_are_written_in_camel_case_and_defaults_left_out() -> None:
    entry = runtime.EntryInfo(
        name="a",
        type=runtime.FILE,
        path="/a",
        modified_time=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )

    assert messages.encode(entry) == (
        b'{"name":"a","type":"FILE_TYPE_FILE","path":"/a","modifiedTime":"2026-01-01T00:00:00Z"}'
    )


@pytest.mark.parametrize("name", ["watcherId", "watcher_id"])
def test_both_spellings_of_a_name_are_read(name: str) -> None:
    raw = b'{"%s":"w1"}' % name.encode()

    assert messages.decode(runtime.WatcherRequest, raw).watcher_id == "w1"


def test_null_means_unset_at_any_depth() -> None:
    raw = b'{"process":{"cmd":"x","args":null,"envs":null,"cwd":null},"pty":null,"stdin":null}'

    request = messages.decode(runtime.StartRequest, raw)

    assert request == runtime.StartRequest(process=runtime.ProcessConfig(cmd="x"))


def test_names_inside_maps_are_left_as_they_are() -> None:
    raw = b'{"process":{"cmd":"x","envs":{"MY_VAR":"1","a_b":"2"}}}'

    request = messages.decode(runtime.StartRequest, raw)

    assert request.process.envs == {"MY_VAR": "1", "a_b": "2"}


def test_numbers_may_come_as_text_and_unknown_fields_are_ignored() -> None:
    raw = b'{"process":{"pid":"42"},"signal":"SIGNAL_SIGKILL","new":{"x":1}}'

    request = messages.decode(runtime.SendSignalRequest, raw)

    assert request.process.pid == 42
    assert request.signal == "SIGNAL_SIGKILL"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"path":5.5}', b"\xff", b"[" * 100_000])
def test_what_is_not_a_message_is_an_invalid_argument(raw: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot decode message"):
        messages.decode(runtime.PathRequest, raw)


@given(st.binary())
def test_any_bytes_decode_or_are_an_invalid_argument(raw: bytes) -> None:
    try:
        messages.decode(runtime.StartRequest, raw)
    except InvalidArgumentError as error:
        assert error.message.startswith("cannot decode message")
