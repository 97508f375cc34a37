"""The envelope codec and the error bodies (interface 3.1 and 3.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter import errors
from sbx_jupyter.protocol import connect

envelopes = st.lists(
    st.tuples(st.sampled_from([connect.MESSAGE_FLAG, connect.END_STREAM_FLAG]), st.binary())
)


@given(envelopes, st.lists(st.integers(1, 9), min_size=1))
def test_envelopes_survive_any_chunking(
    messages: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(connect.encode_envelope(payload, flags) for flags, payload in messages)
    decoder = connect.EnvelopeDecoder()

    decoded: list[tuple[int, bytes]] = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        decoded += decoder.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    decoder.finish()

    assert decoded == messages


@given(st.binary())
def test_any_bytes_give_envelopes_or_one_of_our_errors(stream: bytes) -> None:
    decoder = connect.EnvelopeDecoder(limit=1024)

    try:
        decoded = list(decoder.feed(stream))
    except errors.SbxError as error:
        assert error.code in {"invalid_argument", "resource_exhausted"}
    else:
        assert sum(len(payload) + 5 for _, payload in decoded) <= len(stream)


def test_a_message_over_the_limit_is_refused_from_its_header_alone() -> None:
    decoder = connect.EnvelopeDecoder(limit=10)

    with pytest.raises(errors.ResourceExhaustedError, match="larger than the limit of 10 bytes"):
        list(decoder.feed(connect.envelope_header(11)))


def test_a_compressed_envelope_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="0x01"):
        list(connect.EnvelopeDecoder().feed(connect.encode_envelope(b"{}", 1)))


def test_a_stream_that_stops_inside_an_envelope_is_an_error() -> None:
    decoder = connect.EnvelopeDecoder()
    assert list(decoder.feed(connect.encode_envelope(b"{}")[:-1])) == []

    with pytest.raises(errors.InvalidArgumentError, match="inside an envelope"):
        decoder.finish()


def test_the_end_of_a_stream_carries_the_error() -> None:
    encoded = connect.encode_end_of_stream(errors.NotFoundError("no such process"))

    ((flags, payload),) = connect.EnvelopeDecoder().feed(encoded)
    assert flags == connect.END_STREAM_FLAG
    assert payload == b'{"error":{"code":"not_found","message":"no such process"}}'


@pytest.mark.parametrize("code", sorted(connect.HTTP_STATUS))
def test_every_code_keeps_its_class_across_the_wire(code: str) -> None:
    sent = errors.error_for(code, "a sentence")

    body = connect.msgspec.json.encode(connect.error_to_json(sent))
    received = connect.error_from_json(body, connect.HTTP_STATUS[code])

    assert type(received) is type(sent)
    assert received.message == "a sentence"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"code": 404, "message": "gone"}', 404, "not_found"),
        (b'{"code": "aborted"}', 409, "aborted"),
        (b"Invalid host", 400, "invalid_argument"),
        (b"[1]", 503, "unavailable"),
        (b"\xff\xfe", 500, "internal"),
        (b"", 507, "resource_exhausted"),
    ],
)
def test_bodies_of_other_shapes_are_judged_by_their_status(
    body: bytes, status: int, code: str
) -> None:
    error = connect.error_from_json(body, status)

    assert error.code == code
    assert error.message
