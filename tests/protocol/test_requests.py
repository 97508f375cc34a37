"""Requests in proto3 JSON are read exactly as the interface says (interface 3.1)."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import requests, runtime


@pytest.mark.parametrize("name", ["watcherId", "watcher_id"])
def test_both_spellings_of_a_name_are_read(name: str) -> None:
    raw = b'{"%s":"w1"}' % name.encode()

    assert requests.decode(runtime.WatcherRequest, raw).watcher_id == "w1"


def test_both_spellings_at_once_are_one_name_twice() -> None:
    with pytest.raises(InvalidArgumentError, match="given twice"):
        requests.decode(runtime.WatcherRequest, b'{"watcherId":"a","watcher_id":"a"}')


def test_null_means_unset_at_any_depth() -> None:
    raw = b'{"process":{"cmd":"x","args":null,"envs":null,"cwd":null},"pty":null,"stdin":null}'

    request = requests.decode(runtime.StartRequest, raw)

    assert request == runtime.StartRequest(process=runtime.ProcessConfig(cmd="x"))


def test_names_inside_maps_are_left_as_they_are() -> None:
    raw = b'{"process":{"cmd":"x","envs":{"MY_VAR":"1","a_b":"2"}}}'

    request = requests.decode(runtime.StartRequest, raw)

    assert request.process.envs == {"MY_VAR": "1", "a_b": "2"}


def test_numbers_may_come_as_text_and_unknown_fields_are_ignored() -> None:
    raw = b'{"process":{"pid":"42"},"signal":"SIGNAL_SIGKILL","new":{"x":1,"x":2}}'

    request = requests.decode(runtime.SendSignalRequest, raw)

    assert request.process.pid == 42
    assert request.signal == "SIGNAL_SIGKILL"


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(InvalidArgumentError, match="process: args: text is expected"):
        requests.decode(runtime.StartRequest, b'{"process":{"args":["a",1]}}')


@given(st.binary())
def test_content_survives_any_form_of_base64(content: bytes) -> None:
    for encoded in (base64.b64encode(content), base64.urlsafe_b64encode(content)):
        for text in (encoded, encoded.rstrip(b"=")):
            raw = b'{"stdin":"%b"}' % text
            assert requests.decode(runtime.ProcessInput, raw).stdin == content


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"path":5.5}', b"\xff", b"[" * 100_000])
def test_what_is_not_a_message_is_an_invalid_argument(raw: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot decode message"):
        requests.decode(runtime.PathRequest, raw)


@given(st.binary())
def test_any_bytes_decode_or_are_an_invalid_argument(raw: bytes) -> None:
    try:
        requests.decode(runtime.StartRequest, raw)
    except InvalidArgumentError as error:
        assert error.message.startswith("cannot decode message")
