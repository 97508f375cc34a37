"""What is packed for a download: whole, below one folder, and nothing that leads elsewhere."""

from __future__ import annotations

import datetime as dt
import io
import tarfile
import zipfile

import msgspec
import pytest

from sbx_jupyter.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError
from sbx_jupyter.protocol.runtime import EntryInfo
from sbx_jupyter.server.files import archive, entries
from sbx_jupyter.server.files.archive import FolderPlan
from sbx_jupyter.server.files.entries import EntryDecoder
from sbx_jupyter.server.files.listing_handler import Page, PageQuery
from sbx_jupyter.server.files.packing import Member, create_packer, safe_name

ROOT = EntryInfo(name="a", type="FILE_TYPE_DIRECTORY", path="/a")
IN_2024 = dt.datetime(2024, 5, 6, 7, 8, 10, tzinfo=dt.UTC)
MEMBERS = [
    (Member("a", is_directory=True, mode=0o755), b""),
    (Member("a/tool", size=3, mode=0o4755), b"abc"),
    (Member("a/" + "long-" * 60 + "é", size=1000, modified=IN_2024), b"x" * 1000),
    (Member("a/empty", modified=dt.datetime(1, 1, 1, tzinfo=dt.UTC)), b""),
]


def pack(format):
    packer = create_packer(format)
    made = b""
    for member, content in MEMBERS:
        packer.begin(member)
        if not member.is_directory:
            packer.write(content[:500])
            packer.write(content[500:])
            packer.end()
        made += packer.take()
    packer.finish()
    return io.BytesIO(made + packer.take())


def test_a_zip_holds_what_was_written():
    with zipfile.ZipFile(pack("zip")) as packed:
        assert packed.testzip() is None
        names = [member.name + "/" * member.is_directory for member, _ in MEMBERS]
        assert packed.namelist() == names
        assert packed.read(names[2]) == b"x" * 1000
        assert packed.getinfo(names[2]).date_time == (2024, 5, 6, 7, 8, 10)
        assert packed.getinfo("a/tool").external_attr >> 16 == 0o100755


@pytest.mark.parametrize("format", ["tar", "tar.gz"])
def test_a_tar_holds_what_was_written(format):
    with tarfile.open(fileobj=pack(format)) as packed:
        found = packed.getmembers()
        assert [each.name for each in found] == [member.name for member, _ in MEMBERS]
        assert [each.isdir() for each in found] == [True, False, False, False]
        content = packed.extractfile(found[2])
        assert content is not None
        assert content.read() == b"x" * 1000
        assert found[1].mode == 0o755


def test_a_file_of_another_size_spoils_a_tar():
    packer = create_packer("tar")
    packer.begin(Member("a", size=3))
    with pytest.raises(DataLossError, match="shorter"):
        packer.end()
    with pytest.raises(DataLossError, match="grew"):
        packer.write(b"four")
    with pytest.raises(InvalidArgumentError, match="zip, tar"):
        create_packer("rar")


@pytest.mark.parametrize("path", ["", "/x", "x/", "x//y", "..", "x/../y", "./x"])
def test_a_name_that_leads_elsewhere_is_none(path):
    assert safe_name(path) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("b/x y.txt", "b/x y.txt"),
        ("C:\\x", "C__x"),
        ("a\nb\x1b[2J\u202ec\udcff", "a_b_[2J_c_"),
        ("...", "..."),
        ("é/ü", "é/ü"),
    ],
)
def test_characters_that_mislead_are_replaced(path, name):
    assert safe_name(path) == name


def entry(path, kind="FILE", **fields):
    name = path.rpartition("/")[2]
    return EntryInfo(name=name, type=f"FILE_TYPE_{kind}", path=path, **fields)


def test_what_is_left_out_is_named():
    plan = FolderPlan(ROOT)
    for each in (
        entry("/a/LEFT-OUT.txt"),
        entry("/a/b", "DIRECTORY"),
        entry("/a/b/link", symlink_target="/etc/passwd"),
        entry("/a/out", "DIRECTORY", symlink_target="/"),
        entry("/a/pipe", "UNSPECIFIED"),
        entry("/a/../../etc/cron.d/x"),
        entry("/elsewhere/x"),
        entry("/a/x:y"),
        entry("/a/x\\y"),
    ):
        plan.add(each)
    note = plan.note()
    assert note is not None
    member, text = note

    names = [member.name for member, _ in plan.entries]
    assert names == ["a", "a/LEFT-OUT.txt", "a/b", "a/x_y"]
    assert member.name == "a/LEFT-OUT1.txt"
    assert member.size == len(text)
    for part in (b"b/link: a link", b"pipe: neither", b"etc/cron.d/x: its name", b"x\\y: another"):
        assert part in text
    assert text.count(b"\n") == 2 + 6


def test_a_huge_or_deep_folder_is_refused(monkeypatch):
    monkeypatch.setattr(archive, "MAX_ENTRIES", 10)
    plan = FolderPlan(ROOT)
    for number in range(10):
        plan.add(entry(f"/a/{number}", symlink_target="/" if number % 2 else None))
    with pytest.raises(ResourceExhaustedError, match="more than 10 entries"):
        plan.add(entry("/a/last"))
    with pytest.raises(ResourceExhaustedError, match="nested"):
        FolderPlan(ROOT).add(entry("/a" + "/d" * 100, "DIRECTORY"))


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
@pytest.mark.parametrize("spaced", [False, True])
def test_entries_are_decoded_from_pieces_of_any_size(size, spaced):
    hostile = ['},{', '"},{"name":"x', "]}", "},{\\", "{\"entries\":[{", "a_null_b"]  # fmt: skip
    listed = [entry(f"/a/{name}", metadata={"},{": "},{"}, size=7) for name in hostile * 20]
    raw = msgspec.json.encode({"entries": listed})
    if spaced:
        raw = msgspec.json.format(raw, indent=1)
    decoder = EntryDecoder()
    found = []
    for start in range(0, len(raw), size):
        found += decoder.feed(raw[start : start + size])
    found += decoder.finish()

    assert found == listed


def test_an_empty_listing_and_one_that_is_none():
    empty = EntryDecoder()
    assert empty.feed(b"{}") == []
    assert empty.finish() == []
    broken = EntryDecoder()
    broken.feed(b'{"entries":[{"name":')
    with pytest.raises(InvalidArgumentError):
        broken.finish()


def test_an_entry_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(entries, "MAX_HELD", 1000)
    decoder = EntryDecoder()
    decoder.feed(b'{"entries":[{"name":"' + b"x" * 900)
    with pytest.raises(ResourceExhaustedError):
        decoder.feed(b"x" * 200)


def listing(count):
    return [entry(f"/a/f{n:05}", size=n % 1000) for n in range(count)] + [
        entry("/a/Dir", "DIRECTORY"),
        entry("/a/.hidden"),
    ]


def test_a_page_is_sorted_and_folders_come_first():
    page = Page(PageQuery(offset=1, limit=3, sort="size", is_descending=True))
    page.add(listing(20))

    assert [each.name for each in page.entries()] == ["f00019", "f00018", "f00017"]
    assert (page.total, page.matching) == (22, 22)


def test_a_page_of_a_large_folder_holds_little_and_counts_all():
    page = Page(PageQuery(limit=5, filter="F0", shows_hidden=False))
    many = listing(30_000)
    for start in range(0, len(many), 1000):
        page.add(reversed(many[start : start + 1000]))
        assert len(page._kept) <= 4000

    assert [each.name for each in page.entries()] == [f"f0000{n}" for n in range(5)]
    assert (page.total, page.matching) == (30_002, 10_000)
