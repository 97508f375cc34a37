"""Headers of tars: ordinary ones are read as tarfile does, harmful ones are refused at once."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
from pathlib import Path
from typing import IO, Any, cast

import pytest

from sbx_jupyter.engine.templates.images import image_archives
from sbx_jupyter.engine.templates.uploaded_archives import check_archive
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.isolation.trees import tar_headers
from sbx_jupyter.isolation.trees.tar_headers import LimitedTarFile
from sbx_jupyter.isolation.trees.unpack import _Layer

END = bytes(2 * tarfile.BLOCKSIZE)
LONGEST = 1 << 20


def header(name: str = "a", kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(body: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header("pax", kind, len(body)) + body + bytes(-len(body) % tarfile.BLOCKSIZE)


def record(key: str, value: str) -> bytes:
    rest = len(f" {key}={value}\n")
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return f"{length} {key}={value}\n".encode()


def read(content: bytes, mode: str = "r|") -> list[tarfile.TarInfo]:
    with LimitedTarFile.open(fileobj=io.BytesIO(content), mode=cast("Any", mode)) as tar:
        return list(tar)


def seconds_to_read(content: bytes) -> float:
    def once() -> float:
        began = time.process_time()
        with pytest.raises(tarfile.ReadError, match="damaged"):
            read(content)
        return time.process_time() - began

    return min(once() for _ in range(3))


def test_a_header_of_digits_takes_no_longer_than_another_one() -> None:
    harmless = extended(b"x" * LONGEST)

    assert seconds_to_read(extended(b"1" * LONGEST)) < 20 * seconds_to_read(harmless)


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"6",
        b" a=b\n",
        b"-6 a=b\n",
        b"0 a=b\n",
        b"3 a=b\n",
        b"5 a=b\n",
        b"7 a=b\n",
        b"999 a=b\n",
        b"5 ab\n",
        b"5 =b\n",
        b"6 a=bc",
        b"0" * 30 + b"6 a=b\n",
        "\u0666 a=b\n".encode(),
    ],
)
def test_a_damaged_header_is_refused(body: bytes) -> None:
    with pytest.raises(tarfile.ReadError, match="an extended header is damaged"):
        read(extended(body) + header() + END)


def test_a_header_that_is_cut_is_refused() -> None:
    with pytest.raises(tarfile.ReadError, match="unexpected end of data"):
        read(extended(record("comment", "x" * 2000))[:1024])


@pytest.mark.parametrize(
    "start",
    [
        header("sparse", tarfile.GNUTYPE_SPARSE),
        extended(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")),
        extended(record("GNU.sparse.map", "0,1")),
        extended(record("GNU.sparse.size", "1"), tarfile.XGLTYPE),
    ],
)
def test_sparse_files_are_refused(start: bytes) -> None:
    with pytest.raises(tarfile.ReadError, match="sparse files are not supported"):
        read(start + header(size=2) + b"0\n".ljust(512, b"\0") + END)


@pytest.mark.parametrize(
    "link",
    [
        extended(record("a", "b")),
        extended(record("a", "b"), tarfile.XGLTYPE),
        extended(b"name\0", tarfile.GNUTYPE_LONGNAME),
        extended(b"name\0", tarfile.GNUTYPE_LONGLINK),
    ],
)
def test_a_chain_of_headers_is_refused(link: bytes) -> None:
    assert len(read((8 * link + header()) * 3 + END)) == 3
    with pytest.raises(tarfile.ReadError, match="too many extended headers in a row"):
        read(9 * link + header() + END)


def test_headers_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = extended(record("comment", "x" * 900)) + header()
    monkeypatch.setattr(LimitedTarFile, "max_headers", 10_000)

    assert len(read(pair * 10 + END)) == 10
    with pytest.raises(tarfile.ReadError, match="too long together"):
        read(pair * 11 + END)


def test_a_global_header_counts_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    start = extended(record("comment", "x" * 900), tarfile.XGLTYPE)
    monkeypatch.setattr(LimitedTarFile, "max_headers", 10_000)

    assert len(read(start + header() * 9 + END)) == 9
    with pytest.raises(tarfile.ReadError, match="too long together"):
        read(start + header() * 11 + END)


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (extended(record("size", "-1")), "a size that no file has"),
        (extended(record("size", "9" * 4000)), "a size that no file has"),
        (header(size=-(1 << 30)), "a size that no file has"),
        (header("x", tarfile.GNUTYPE_LONGNAME, -(1 << 30)), "a size that no file has"),
        (extended(record("size", "1"), tarfile.XGLTYPE), "a global header gives a size"),
    ],
)
def test_a_size_that_counts_against_others_is_refused(start: bytes, text: str) -> None:
    with pytest.raises(tarfile.ReadError, match=text):
        read(header("first") + start + header("d", tarfile.DIRTYPE) + END)


class NoContent(io.RawIOBase):
    """A tar whose only file is larger than any disk here."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._at, self._size = content, 0, size

    def read(self, size: int = -1) -> bytes:
        found = self._content[self._at : self._at + size]
        found += bytes(max(0, min(size, self._size - self._at) - len(found)))
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        assert whence == 0
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at


def ordinary() -> bytes:
    buffer = io.BytesIO()
    common = {"comment": "0123456789abcdef", "SCHILY.xattr.user.all": "\u00e9"}
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=common
    ) as tar:

        def add(name: str, content: bytes = b"", **fields: Any) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))

        add("plain", b"content", mtime=1234567890.25, uid=5, gid=6)
        add("long/" * 60 + "name", b"x" * 1000, uid=1 << 30)
        add("link", type=tarfile.SYMTYPE, linkname="target/" * 50)
        add("hard", type=tarfile.LNKTYPE, linkname="n\u00f6/" * 50)
        add("n\u00e4me \u732b", b"y", uname="\u00fcser", gname="gr\u00fcppe")
        add("raw \udcff", b"z")
        add("directory/" * 12, type=tarfile.DIRTYPE, mode=0o700)
        add("with", pax_headers={"SCHILY.xattr.user.k": "v=\n\udcfe\0", "atime": "1.5"})
        add("none", pax_headers={"SCHILY.xattr.user.empty": ""})
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["r|", "r:"])
@pytest.mark.parametrize("form", ["pax", "gnu"])
def test_ordinary_archives_are_read_as_tarfile_reads_them(mode: str, form: str) -> None:
    content = ordinary()
    if form == "gnu":
        name = b"n/" * 200 + b"n\0"
        content = extended(name, tarfile.GNUTYPE_LONGLINK) + extended(
            name, tarfile.GNUTYPE_LONGNAME
        )
        content += header("cut", tarfile.SYMTYPE) + header("after") + END

    with tarfile.open(fileobj=io.BytesIO(content), mode=cast("Any", mode)) as tar:
        expected = [described(member) for member in tar]

    assert [described(member) for member in read(content, mode)] == expected
    assert len(expected) == (9 if form == "pax" else 2)


def described(member: tarfile.TarInfo) -> dict[str, Any]:
    return {
        **member.get_info(),
        "at": (member.offset, member.offset_data),
        "pax": member.pax_headers,
    }


@pytest.mark.parametrize("charset", ["BINARY", "ISO-IR 10646 2000 UTF-8"])
def test_values_that_are_not_utf_8_stay_the_same_bytes(charset: str) -> None:
    body = record("hdrcharset", charset) + b"10 path=\xff\n" + b"25 SCHILY.xattr.user.k=\xfe\n"
    content = extended(body) + header() + END

    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        expected = described(tar.getmembers()[0])

    assert [described(member) for member in read(content)] == [expected]
    assert expected["pax"]["SCHILY.xattr.user.k"].encode("utf-8", "surrogateescape") == b"\xfe"


def test_a_size_of_more_than_8_gib_moves_the_next_entry() -> None:
    size = (9 << 30) + 5
    start = extended(record("size", str(size))) + header("huge")
    stop = size + -size % 512 + len(start)

    with tarfile.open(fileobj=cast("IO[bytes]", NoContent(start, stop + 1024)), mode="r:") as tar:
        expected = [described(member) for member in tar]
    file = cast("IO[bytes]", NoContent(start, stop + 1024))
    with LimitedTarFile.open(fileobj=file, mode="r:") as tar:
        found = [described(member) for member in tar]

    assert found == expected
    assert tar.offset == stop
    assert [member["size"] for member in found] == [size]


HARMFUL = [
    extended(b"1" * LONGEST),
    header("sparse", tarfile.GNUTYPE_SPARSE),
    extended(record("a", "b")) * 9,
    extended(record("size", "-1")),
]


@pytest.mark.parametrize("harm", HARMFUL)
@pytest.mark.parametrize("before", [b"", header("first")])
def test_each_reader_names_the_trouble_in_its_own_error(
    tmp_path: Path, before: bytes, harm: bytes
) -> None:
    content = before + harm + header() + END
    (tmp_path / "tar").write_bytes(gzip.compress(content, 1))

    with pytest.raises(InvalidArgumentError, match="is not a complete tar"):
        check_archive(tmp_path / "tar", 1 << 30)
    with pytest.raises(InvalidArgumentError, match="is not a complete tar"):
        image_archives.read_archive(tmp_path / "tar", cast("Any", None))
    with pytest.raises(ValueError, match="is not a complete tar"):
        layer_without_entries().apply(io.BytesIO(content))


def layer_without_entries() -> _Layer:
    """A layer whose entries are not unpacked: that changes the root of the process."""
    layer = _Layer(owners=False)
    cast("Any", layer)._take = lambda *_: None
    return layer


def test_the_headers_of_an_image_are_limited_more(tmp_path: Path) -> None:
    pair = extended(record("comment", "x" * 1_000_000)) + header()
    (tmp_path / "tar").write_bytes(pair * 5 + END)

    with pytest.raises(InvalidArgumentError, match="too long together"):
        image_archives.read_archive(tmp_path / "tar", cast("Any", None))
    assert check_archive(tmp_path / "tar", 1 << 30) == 0


def test_a_name_that_nothing_can_open_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tar").write_bytes(extended(record("path", "a/" * 400_000)) + header() + END)

    with pytest.raises(InvalidArgumentError, match="the name is too long"):
        check_archive(tmp_path / "tar", 1 << 30)


def test_the_reader_needs_what_tarfile_has_inside() -> None:
    for name in ("_proc_member", "_proc_pax", "_proc_sparse", "_apply_pax_info", "_block"):
        assert hasattr(tarfile.TarInfo, name), name
    assert tar_headers.LimitedTarInfo is LimitedTarFile.tarinfo
