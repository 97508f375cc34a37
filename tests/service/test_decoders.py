"""What takes hostile bytes apart, fuzzed without a server."""

from __future__ import annotations

import contextlib
import gzip
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sbx_jupyter.errors import InternalError, InvalidArgumentError, SbxError
from sbx_jupyter.protocol.connect import EnvelopeDecoder, encode_envelope
from sbx_jupyter.service.runtime.compression import GzipDecoder
from sbx_jupyter.service.runtime.media_types import content_type
from sbx_jupyter.service.runtime.multipart import MultipartDecoder, parameters
from sbx_jupyter.service.runtime.negotiation import disposition

CONTENT_TYPE = "multipart/form-data; boundary=B0undary"
END = b"--B0undary--\r\n"


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(edges)]


def multipart(files: list[tuple[bytes, bytes]]) -> bytes:
    parts = [
        b'--B0undary\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n'
        % (name.replace(b"\\", b"\\\\").replace(b'"', b'\\"'), content)
        for name, content in files
    ]
    return b"".join(parts) + END


def decode(decoder: MultipartDecoder, pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for piece in pieces:
        for event in decoder.feed(piece):
            if event.kind == "begin":
                found.append((event.content, b""))
            elif event.kind == "data":
                name, content = found[-1]
                found[-1] = (name, content + event.content)
    decoder.finish()
    return found


def unpack(pieces: list[bytes]) -> bytes:
    decoder = GzipDecoder()
    plain = b"".join(out for piece in pieces for out in decoder.feed(piece))
    decoder.finish()
    return plain


names = st.binary(max_size=40).filter(lambda name: not set(name) & set(b"\r\n\0"))


@given(
    st.lists(st.tuples(names, st.binary(max_size=300)), min_size=1, max_size=4),
    st.lists(st.integers(0, 5000), max_size=8),
)
@settings(max_examples=300)
def test_files_come_out_as_they_went_in_however_they_are_cut(
    files: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    assert decode(MultipartDecoder(CONTENT_TYPE), cut(multipart(files), places)) == files


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5))
@settings(max_examples=300)
def test_any_bytes_are_parts_or_an_error(raw: bytes, places: list[int]) -> None:
    for body in (raw, b"--B0undary\r\n" + raw, multipart([(b"a", b"b")])[:-8] + raw):
        try:
            decode(MultipartDecoder(CONTENT_TYPE), cut(body, places))
        except SbxError as error:
            assert error.code == "internal"


@given(st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace").decode("latin-1")))
def test_any_content_type_is_usable_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        MultipartDecoder(f"multipart/form-data; boundary={text}")


@pytest.mark.parametrize("start", [b"X: ", b""])
def test_an_endless_header_of_a_part_is_refused(start: bytes) -> None:
    decoder = MultipartDecoder(CONTENT_TYPE)
    list(decoder.feed(b"--B0undary\r\n" + start))

    with pytest.raises(InternalError):
        _ = [list(decoder.feed(b"y" * 10_000)) for _ in range(100)]


@given(st.lists(st.tuples(names, st.binary(max_size=50)), min_size=1, max_size=3), st.data())
@settings(max_examples=100)
def test_a_body_that_is_cut_off_is_broken(
    files: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    body = multipart(files)
    end = data.draw(st.integers(0, len(body) - len(b"--\r\n") - 1))

    with pytest.raises(InternalError):
        decode(MultipartDecoder(CONTENT_TYPE), [body[:end]])


@given(st.lists(st.tuples(st.booleans(), names, st.binary(max_size=50)), max_size=5))
@settings(max_examples=100)
def test_parts_of_another_name_are_passed_over(parts: list[tuple[bool, bytes, bytes]]) -> None:
    pieces = [multipart([(name, content)]).removesuffix(END) for _, name, content in parts]
    for place, (is_file, _, _) in enumerate(parts):
        if not is_file:
            pieces[place] = pieces[place].replace(b'name="file"', b'name="field"', 1)

    found = decode(MultipartDecoder(CONTENT_TYPE), [*pieces, END])

    assert found == [(name, content) for is_file, name, content in parts if is_file]


def test_quoted_parameters_are_unescaped_and_the_first_one_counts() -> None:
    header = b'form-data; name="file"; filename="a\\"b;c=d.txt"; filename="second"; x=y'

    assert dict(parameters(header)) == {
        b"name": b"file",
        b"filename": b'a"b;c=d.txt',
        b"x": b"y",
    }


def test_a_backslash_that_escapes_nothing_belongs_to_the_name() -> None:
    header = rb'form-data; name="file"; filename="a\b\\c\"d"'

    assert dict(parameters(header))[b"filename"] == rb'a\b\c"d'


@given(st.lists(st.binary(max_size=200), max_size=5), st.lists(st.integers(0, 2000), max_size=8))
@settings(max_examples=300)
def test_envelopes_come_out_as_they_went_in_however_they_are_cut(
    messages: list[bytes], places: list[int]
) -> None:
    decoder = EnvelopeDecoder()
    raw = b"".join(encode_envelope(message) for message in messages)

    found = [each for piece in cut(raw, places) for each in decoder.feed(piece)]

    decoder.finish()
    assert found == [(0, message) for message in messages]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
@settings(max_examples=300)
def test_any_bytes_are_envelopes_or_an_error(raw: bytes, places: list[int]) -> None:
    decoder = EnvelopeDecoder(limit=100)
    try:
        for piece in cut(raw, places):
            for _, payload in decoder.feed(piece):
                assert len(payload) <= 100
        decoder.finish()
    except SbxError as error:
        assert error.code in ("invalid_argument", "resource_exhausted")


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=3), st.lists(st.integers(0, 9000)))
@settings(max_examples=100)
def test_gzip_is_unpacked_however_it_is_cut(members: list[bytes], places: list[int]) -> None:
    packed = b"".join(gzip.compress(member) for member in members)

    assert unpack(cut(packed, places)) == b"".join(members)


@given(st.binary(max_size=500))
def test_any_bytes_are_gzip_or_an_error(raw: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        unpack([b"\x1f\x8b" + raw])


@given(st.text(max_size=60), st.binary(max_size=600))
def test_every_name_gives_headers_of_one_line(name: str, beginning: bytes) -> None:
    for header in (disposition(name), content_type(name, beginning)):
        assert header.isascii()
        assert header.isprintable()
