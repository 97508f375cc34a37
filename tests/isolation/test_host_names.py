"""The name of a sandbox in ``/etc``: what programs wrote there stays at the next start."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.stored.comparison import Comparison
from sbx_jupyter.isolation.stored.merged_tree import Layer
from sbx_jupyter.isolation.zygote import host_names

from .inside import Inside, create, sandbox

if TYPE_CHECKING:
    from sbx_jupyter.isolation.fence import Fence

LONG = b"10.0.0.1 one\n" * 8000
LATIN = b"10.0.0.1 caf\xe9\n10.0.0.2 two"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    path = tmp_path / "tree" / "etc"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def folder(etc: Path) -> Iterator[int]:
    fd = os.open(etc, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


async def test_what_programs_wrote_to_hosts_stays_over_starts(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "hosts1") as first:
        await stop(first)
        hosts = first.cage.writable / "upper/etc/hosts"
        usual = hosts.read_bytes()
        assert usual.count(b"127.0.1.1 hosts1\n") == 1
        for number, (written, expected) in enumerate(
            (
                (LONG, LONG),
                (LATIN, LATIN + b"\n127.0.1.1 NAME\n"),
                (usual, usual.replace(b"hosts1", b"NAME")),
            )
        ):
            hosts.write_bytes(written)
            for name in (f"hosts{number}a", f"hosts{number}b"):
                again = await create(fence, data_dir, name, writable=first.cage.writable)
                ran = await again.run("cat /etc/hostname; ls -A /etc | grep sbx-")
                await stop(again)
                assert ran.out == f"{name}\n"
                assert hosts.read_bytes() == expected.replace(b"NAME", name.encode())


async def stop(inside: Inside) -> None:
    """End a sandbox; its files stay."""
    inside.disconnect()
    await inside.cage.kill()


def test_a_file_that_is_right_is_not_written(etc: Path, folder: int) -> None:
    host_names.write_names(folder, "i1")
    before = [(etc / name).stat() for name in ("hosts", "hostname")]
    host_names.write_names(folder, "i1")

    assert [(etc / name).stat() for name in ("hosts", "hostname")] == before
    assert (etc / "hosts").read_bytes() == b"127.0.0.1 localhost\n127.0.1.1 i1\n"
    assert (etc / "hostname").read_bytes() == b"i1\n"
    assert [stat.S_IMODE(status.st_mode) for status in before] == [0o644, 0o644]


def test_the_longest_file_is_still_written(etc: Path, folder: int) -> None:
    longest = b"#" * (host_names.MOST_BYTES - 1) + b"\n"
    (etc / "hosts").write_bytes(longest)
    host_names.write_names(folder, "i1")
    assert (etc / "hosts").read_bytes() == longest + b"127.0.1.1 i1\n"

    (etc / "hosts").write_bytes(longest + b"\n")
    host_names.write_names(folder, "i1")
    assert (etc / "hosts").read_bytes() == longest + b"\n"


def test_mode_owner_and_attributes_stay(etc: Path, folder: int) -> None:
    hosts = etc / "hosts"
    hosts.write_bytes(b"1.1.1.1 a\n")
    hosts.chmod(0o660)
    if os.geteuid() == 0:
        os.chown(hosts, 7, 8)
    os.setxattr(hosts, "user.mark", b"mine")
    before = hosts.stat()

    host_names.write_names(folder, "i1")

    after = hosts.stat()
    assert hosts.read_bytes() == b"1.1.1.1 a\n127.0.1.1 i1\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert os.getxattr(hosts, "user.mark") == b"mine"


def test_links_and_folders_stay_what_they_are(etc: Path, folder: int) -> None:
    outside = etc.parent / "outside"
    outside.write_bytes(b"mine")
    (etc / "hosts").symlink_to(outside)
    (etc / "hostname").mkdir()

    host_names.write_names(folder, "i1")

    assert outside.read_bytes() == b"mine"
    assert sorted(os.listdir(etc)) == ["hostname", "hosts"]
    assert (etc / "hosts").is_symlink()


def test_what_a_start_that_was_cut_short_left_goes_away(etc: Path, folder: int) -> None:
    (etc / "victim").write_bytes(b"mine")
    (etc / ".sbx-new-name").symlink_to("victim")

    host_names.write_names(folder, "i1")

    assert sorted(os.listdir(etc)) == ["hostname", "hosts", "victim"]
    assert (etc / "victim").read_bytes() == b"mine"


def test_a_file_stays_when_it_cannot_be_written(
    etc: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (etc / "hosts").write_bytes(b"1.1.1.1 a\n")
    # A full disk takes a part of what is written.
    monkeypatch.setattr(os, "write", lambda *_: 1)

    host_names.write_names(folder, "i1")

    assert os.listdir(etc) == ["hosts"]
    assert (etc / "hosts").read_bytes() == b"1.1.1.1 a\n"


@pytest.mark.parametrize("before", [None, b"1.1.1.1 a", LATIN, b"", b"127.0.1.1 old\n"])
def test_what_is_written_is_no_change(
    tmp_path: Path, etc: Path, folder: int, before: bytes | None
) -> None:
    base = tmp_path / "base"
    (base / "etc").mkdir(parents=True)
    if before is not None:
        for tree in (base / "etc", etc):
            (tree / "hosts").write_bytes(before)
    host_names.write_names(folder, "i1")

    def changes(name: str) -> list[str]:
        ours, theirs = Layer(etc.parent), Layer(base)
        found = Comparison((ours,), (), (theirs,), sandbox_id=name).changes(lambda: None)
        return [change.path for change in found]

    assert changes("i1") == []
    assert "/etc/hosts" in changes("i2")
