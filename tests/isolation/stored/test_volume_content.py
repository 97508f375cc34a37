"""Files of a volume from outside, with a hostile writer inside (interface 1.6.2)."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.stored import volume_content
from sbx_jupyter.isolation.stored.volume_content import Ownership, VolumeContent, clean_path

PLAIN = Ownership()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="owners can be set by root alone")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    (tmp_path / "secret").write_text("outside")
    return folder


@pytest.fixture
def content(root: Path) -> VolumeContent:
    return VolumeContent(root, real_ids=os.geteuid() == 0)


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


def write(content: VolumeContent, path: str, data: bytes, *, force: bool = False) -> None:
    draft = content.open_write(path, PLAIN, force=force)
    os.write(draft.descriptor, data)
    os.close(draft.descriptor)
    content.finish_write(path, draft.name, force=force)


def read(content: VolumeContent, path: str) -> bytes:
    descriptor, size = content.open_read(path)
    try:
        return os.read(descriptor, size + 1)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("a", "/a"), ("/a//b/./c/", "/a/b/c"), ("../../x", "/x"), ("/a/../..", "/"), (".", "/")],
)
def test_paths_are_cleaned_and_cannot_climb(path: str, cleaned: str) -> None:
    assert str(clean_path(path)) == cleaned


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_paths_that_are_none_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        clean_path(path)


def test_a_file_is_written_once_and_replaced_only_by_force(content: VolumeContent) -> None:
    write(content, "a.txt", b"one")
    with pytest.raises(AlreadyExistsError):
        write(content, "a.txt", b"two")
    assert read(content, "/a.txt") == b"one"

    write(content, "a.txt", b"2", force=True)
    assert read(content, "/a.txt") == b"2"


def test_parents_are_made_by_force_alone(content: VolumeContent) -> None:
    with pytest.raises(NotFoundError):
        write(content, "x/y/z.txt", b"")
    with pytest.raises(NotFoundError):
        content.make_dir("x/y", PLAIN, force=False)

    write(content, "x/y/z.txt", b"deep", force=True)

    assert [entry.path for entry in content.list_dir("/", 3)] == ["/x", "/x/y", "/x/y/z.txt"]
    assert [entry.path for entry in content.list_dir("/", 0)] == ["/x"]


def test_an_existing_directory_is_fine_by_force_alone(content: VolumeContent) -> None:
    made = content.make_dir("d", Ownership(mode=0o750), force=False)
    assert (made.type, made.mode, made.path) == ("directory", 0o750, "/d")

    with pytest.raises(AlreadyExistsError):
        content.make_dir("d", PLAIN, force=False)
    assert content.make_dir("d", Ownership(mode=0o777), force=True).mode == 0o750
    assert content.make_dir("/", PLAIN, force=True).path == "/"

    write(content, "f", b"")
    with pytest.raises(AlreadyExistsError):
        content.make_dir("f", PLAIN, force=True)


@needs_root
def test_owners_and_modes_have_the_interface_defaults(content: VolumeContent) -> None:
    write(content, "f", b"")
    content.make_dir("d", PLAIN, force=False)

    file, folder = content.stat("f"), content.stat("d")
    assert (file.uid, file.gid, file.mode) == (9090, 9090, 0o666)
    assert (folder.uid, folder.gid, folder.mode) == (9090, 9090, 0o777)


@needs_root
def test_only_what_is_named_is_changed(content: VolumeContent) -> None:
    write(content, "f", b"")

    changed = content.change("f", Ownership(uid=7, gid=-1, mode=0o600))

    assert (changed.uid, changed.gid, changed.mode) == (7, 9090, 0o600)


def test_removing_is_recursive_and_never_the_root(content: VolumeContent) -> None:
    write(content, "a/b/c", b"", force=True)

    content.remove("a")

    assert content.list_dir("/") == []
    with pytest.raises(NotFoundError):
        content.remove("a")
    with pytest.raises(InvalidArgumentError, match="cannot delete root"):
        content.remove("/x/..")


def test_a_link_is_shown_and_never_followed_out(
    content: VolumeContent, root: Path, tmp_path: Path
) -> None:
    (root / "up").symlink_to("../secret")
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "proc").symlink_to("/proc/self/root")

    assert content.stat("up").target == "../secret"
    for path in ["up", "absolute", "folder/secret", "proc/etc/passwd"]:
        with pytest.raises((NotFoundError, InvalidArgumentError)):
            content.open_read(path)
        with pytest.raises(SbxError):
            content.open_write(path, PLAIN, force=False)
    content.remove("folder")
    assert (tmp_path / "secret").read_text() == "outside"


def test_a_link_inside_the_volume_is_followed_for_reading(
    content: VolumeContent, root: Path
) -> None:
    write(content, "real", b"data")
    (root / "link").symlink_to("/real")

    assert read(content, "link") == b"data"


def test_special_files_are_not_opened(content: VolumeContent, root: Path) -> None:
    os.mkfifo(root / "fifo")
    content.make_dir("d", PLAIN, force=False)

    for path in ["fifo", "d"]:
        with pytest.raises(InvalidArgumentError):
            content.open_read(path)
        with pytest.raises(SbxError):
            content.open_write(path, PLAIN, force=True)
    assert content.stat("fifo").type == "unknown"


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_was_not_finished_changes_nothing(
    content: VolumeContent, root: Path, force: bool
) -> None:
    if force:
        write(content, "d/f", b"before", force=True)
    else:
        content.make_dir("d", PLAIN, force=False)
    before = content.list_dir("d")
    draft = content.open_write("d/f", PLAIN, force=force)
    os.write(draft.descriptor, b"half")
    os.close(draft.descriptor)

    content.drop_write("d/f", draft.name)

    assert content.list_dir("d") == before


def test_of_two_exclusive_writes_one_wins(content: VolumeContent) -> None:
    first = content.open_write("f", PLAIN, force=False)
    os.write(first.descriptor, b"first")
    write(content, "f", b"second")
    os.close(first.descriptor)

    with pytest.raises(AlreadyExistsError):
        content.finish_write("f", first.name, force=False)
    assert read(content, "f") == b"second"
    assert [entry.name for entry in content.list_dir("/")] == ["f"]


@pytest.mark.parametrize("force", [False, True])
def test_a_draft_that_is_swapped_for_a_link_leads_nowhere(
    content: VolumeContent, root: Path, tmp_path: Path, force: bool
) -> None:
    (tmp_path / "outside").write_text("secret")
    draft = content.open_write("f", PLAIN, force=force)
    os.close(draft.descriptor)
    (root / draft.name).unlink()
    (root / draft.name).symlink_to(tmp_path / "outside")

    content.finish_write("f", draft.name, force=force)

    assert content.stat("f").type == "symlink"
    assert (tmp_path / "outside").stat().st_nlink == 1
    for name in ("../outside", "f", "/f"):
        with pytest.raises(InvalidArgumentError):
            content.drop_write("f", name)


def test_a_file_in_the_middle_of_a_path_is_an_invalid_argument(content: VolumeContent) -> None:
    write(content, "f", b"")

    for call in (content.stat, content.list_dir, content.open_read, content.remove):
        with pytest.raises(InvalidArgumentError):
            call("f/below")
    with pytest.raises(InvalidArgumentError):
        content.list_dir("f")


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(
    content: VolumeContent, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    spare = root / "spare"
    spare.symlink_to(outside)
    (root / "d").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "d", root / "held")
            os.rename(spare, root / "d")
            os.rename(root / "d", spare)
            os.rename(root / "held", root / "d")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for index in range(2000):
            try:
                draft = content.open_write(f"d/{index}", PLAIN, force=False)
                os.close(draft.descriptor)
                content.finish_write(f"d/{index}", draft.name, force=False)
            except SbxError:
                continue
    finally:
        stop.set()
        thread.join()

    assert list(outside.iterdir()) == []


def test_names_that_are_not_text_are_listed(content: VolumeContent, root: Path) -> None:
    with open(os.fsencode(root) + b"/\xff", "wb"):
        pass

    assert [entry.name for entry in content.list_dir("/")] == ["\ufffd"]


def test_a_tree_of_3000_levels_is_removed(content: VolumeContent, root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    content.remove("/d")
    assert list(root.iterdir()) == []


def test_a_listing_has_an_end(
    content: VolumeContent, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_content, "MAX_LISTING", 10_000)
    for number in range(100):
        (root / f"{number}").touch()

    with pytest.raises(ResourceExhaustedError, match="too much"):
        content.list_dir("/")


@pytest.mark.parametrize(("seconds", "year"), [(10**12, 9999), (-(10**12), 1)])
def test_any_time_that_a_sandbox_sets_is_listed(seconds: int, year: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # keeps times that disks do not
        Path(folder, "f").touch()
        os.utime(Path(folder, "f"), (seconds, seconds))

        (entry,) = VolumeContent(Path(folder), real_ids=False).list_dir("/")

    assert entry.mtime.year == year


@pytest.mark.parametrize("failures", [3, 1000])
def test_a_path_that_others_change_meanwhile_is_tried_again(
    content: VolumeContent, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    left = failures

    def fail_at_first(*args: Any, **fields: Any) -> int:
        nonlocal left
        left -= 1
        if left >= 0:
            raise BlockingIOError(errno.EAGAIN, "again")
        return syscalls.openat2(*args, **fields)

    write(content, "f", b"content")
    monkeypatch.setattr(volume_content, "openat2", fail_at_first)

    if failures == 3:
        assert read(content, "f") == b"content"
    else:
        with pytest.raises(UnavailableError, match="ask again"):
            read(content, "f")
