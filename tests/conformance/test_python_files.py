"""e2b for Python, synchronously: files."""

from __future__ import annotations

import io
import os

import httpx
import pytest
from e2b import (
    AuthenticationException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
)
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType

from tests.waiting import PATIENCE, until


def test_text_comes_back_as_written(sandbox):
    written = sandbox.files.write("folder/näme.txt", "zwölf\n")

    assert written.path == "/home/user/folder/näme.txt"
    assert sandbox.files.read("folder/näme.txt") == "zwölf\n"
    assert bytes(sandbox.files.read("folder/näme.txt", format="bytes")) == "zwölf\n".encode()


@pytest.mark.parametrize("options", [{}, {"gzip": True}, {"use_octet_stream": True}])
def test_bytes_come_back_whatever_the_encoding_on_the_wire(sandbox, options):
    content = os.urandom(300_000)

    sandbox.files.write("blob", content, **options)

    gzip = {"gzip": True} if options.get("gzip") else {}
    assert bytes(sandbox.files.read("blob", format="bytes", **gzip)) == content


def test_a_file_object_is_streamed_both_ways(sandbox):
    content = os.urandom(3 * 1024 * 1024)

    sandbox.files.write("stream", io.BytesIO(content))

    assert b"".join(sandbox.files.read("stream", format="stream")) == content


def test_an_empty_file_is_empty(sandbox):
    sandbox.files.write("empty", "")

    assert sandbox.files.read("empty") == ""
    assert sandbox.files.get_info("empty").size == 0


def test_several_files_are_written_at_once(sandbox):
    written = sandbox.files.write_files(
        [{"path": "a/1", "data": "one"}, {"path": "/tmp/2", "data": b"two"}]
    )

    assert [entry.path for entry in written] == ["/home/user/a/1", "/tmp/2"]
    assert sandbox.files.read("/tmp/2") == "two"


def test_metadata_is_kept_and_replaced(sandbox):
    sandbox.files.write("tagged", "x", metadata={"origin": "test"})
    assert sandbox.files.get_info("tagged").metadata == {"origin": "test"}

    sandbox.files.write("tagged", "y")

    assert not sandbox.files.get_info("tagged").metadata


def test_a_listing_goes_as_deep_as_asked(sandbox):
    sandbox.files.write_files([{"path": f"tree/{p}", "data": ""} for p in ("b", "a/x", "a/y/z")])

    shallow = sandbox.files.list("tree")
    deep = sandbox.files.list("tree", depth=3)

    assert [(e.name, e.type) for e in shallow] == [("a", FileType.DIR), ("b", FileType.FILE)]
    assert [e.path.removeprefix("/home/user/tree/") for e in deep] == [
        "a",
        "a/x",
        "a/y",
        "a/y/z",
        "b",
    ]


def test_an_entry_tells_owner_mode_and_link(sandbox):
    sandbox.commands.run("echo hi > target && chmod 640 target && ln -s target link")

    info = sandbox.files.get_info("target")
    link = sandbox.files.get_info("link")

    assert (info.owner, info.group, info.permissions, info.mode) == (
        "user",
        "user",
        "-rw-r-----",
        0o640,
    )
    assert info.size == 3
    assert link.type == FileType.SYMLINK
    assert link.symlink_target == "/home/user/target"


def test_directories_are_made_once_renamed_and_removed(sandbox):
    assert sandbox.files.make_dir("d/e") is True
    assert sandbox.files.make_dir("d/e") is False

    sandbox.files.rename("d", "moved")

    assert sandbox.files.exists("moved/e")
    assert not sandbox.files.exists("d")
    sandbox.files.remove("moved")
    sandbox.files.remove("moved")
    assert not sandbox.files.exists("moved")


def test_what_is_missing_or_of_the_wrong_kind_is_told_apart(sandbox):
    sandbox.files.write("plain", "x")

    with pytest.raises(FileNotFoundException):
        sandbox.files.read("missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.read("/home/user")
    with pytest.raises(NotFoundException):
        sandbox.files.list("missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.list("plain")
    with pytest.raises(NotFoundException):
        sandbox.files.rename("missing", "other")
    with pytest.raises(AuthenticationException):
        sandbox.files.read("plain", user="nobody-here")


def test_files_written_as_root_belong_to_root(sandbox):
    sandbox.files.write("/root/x", "secret", user="root")

    assert sandbox.files.get_info("/root/x").owner == "root"
    assert sandbox.files.read("x", user="root") == "secret"


def test_a_polled_watch_reports_what_changes(sandbox):
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched", recursive=True)

    sandbox.files.make_dir("watched/sub")
    # What happens in a new folder is told from when the watch has seen the folder.
    collect(handle, ("sub", FilesystemEventType.CREATE))
    sandbox.files.write("watched/sub/new", "x")
    sandbox.files.remove("watched/sub/new")

    seen = collect(handle, ("sub/new", FilesystemEventType.REMOVE))
    handle.stop()
    assert ("sub/new", FilesystemEventType.WRITE) in seen


def test_watching_nothing_is_not_found(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.files.watch_dir("missing")


def test_signed_urls_open_one_file_for_a_while(sandbox):
    sandbox.files.write("shared file", "public")
    url = sandbox.download_url("shared file", use_signature_expiration=60)
    route = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}

    with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
        assert http.get(url).text == "public"
        assert http.get(url.replace("shared", "others"), headers=route).status_code == 401
        upload = sandbox.upload_url("incoming", use_signature_expiration=60)
        answer = http.post(upload, files={"file": ("ignored", b"sent")})
        assert answer.status_code == 200
        old = sandbox.download_url("shared file", use_signature_expiration=1)
        until(lambda: http.get(old).status_code == 401)

    assert sandbox.files.read("incoming") == "sent"


def collect(handle, last):
    """The events of a watch up to the ``last`` one."""
    seen = []

    def is_told():
        seen.extend((event.name, event.type) for event in handle.get_new_events())
        return last in seen

    until(is_told, step=0.05)
    return seen
