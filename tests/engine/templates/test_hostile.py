"""Builds that mean harm: archives, endless steps, full disks."""

from __future__ import annotations

import gzip
import secrets
import tarfile
from pathlib import Path

import pytest

from .conftest import Api, archive, entry, run

OUTSIDE = "/tmp/sbx-templates-outside"


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([entry(OUTSIDE, content=b"x")], "an absolute name"),
        ([entry("../up", content=b"x")], "it leads out"),
        ([entry("a/../b", content=b"x")], "'..' in the name"),
        ([entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3)], "neither file"),
        ([entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0)], "neither file"),
        ([entry("pipe", tarfile.FIFOTYPE)], "neither file"),
        ([entry("hard", tarfile.LNKTYPE, linkname="/etc/passwd")], "an absolute name"),
        ([entry("hard", tarfile.LNKTYPE, linkname="missing")], "not in the archive"),
        ([entry("soft", tarfile.SYMTYPE, linkname="../../etc")], "leads out"),
        (
            [entry("out", tarfile.SYMTYPE, linkname="/tmp"), entry("out/x", content=b"x")],
            "below a symbolic link",
        ),
    ],
)
def test_an_entry_that_leads_out_is_refused_by_name(
    api: Api, entries: list[tuple[tarfile.TarInfo, bytes]], text: str
) -> None:
    asked = api.request("hostile")
    files_hash = api.upload(asked["templateID"], archive(*entries))
    api.start(asked, {"type": "COPY", "args": [".", "/app/"], "filesHash": files_hash})
    found = api.wait(asked)
    assert (found["status"], found["reason"]["step"]) == ("error", "1")
    assert text in found["reason"]["message"]
    assert entries[-1][0].name in found["reason"]["message"]
    assert not Path(OUTSIDE).exists()


# Without a time in it, so that the test has the same name in every run.
GARBAGE = gzip.compress(b"garbage", mtime=0)


@pytest.mark.parametrize("content", [b"", b"garbage", GARBAGE, b"\x1f\x8b123"])
def test_an_upload_that_is_no_tar_is_refused(api: Api, content: bytes) -> None:
    asked = api.request("garbage")
    files_hash = api.upload(asked["templateID"], content, secrets.token_hex(32))
    api.start(asked, {"type": "COPY", "args": ["a", "/app/"], "filesHash": files_hash})
    found = api.wait(asked)
    assert found["status"] == "error"
    assert "failed to copy 'a' to '/app/'" in found["reason"]["message"]


def test_an_archive_that_unpacks_to_more_than_the_disk_is_refused(api: Api) -> None:
    info = tarfile.TarInfo("huge")
    info.size = 64 << 40
    bomb = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    asked = api.request("bomb")
    files_hash = api.upload(asked["templateID"], bomb)
    api.start(asked, {"type": "COPY", "args": ["huge", "/"], "filesHash": files_hash})
    found = api.wait(asked)
    assert "'huge': the archive unpacks to more than" in found["reason"]["message"]


def test_an_extended_header_without_end_does_not_fill_the_memory(api: Api) -> None:
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.XHDTYPE, 8 << 30
    bomb = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    asked = api.request("header-bomb")
    files_hash = api.upload(asked["templateID"], bomb)
    api.start(asked, {"type": "COPY", "args": ["x", "/"], "filesHash": files_hash})
    assert "extended header is too long" in api.wait(asked)["reason"]["message"]


def test_a_source_outside_of_the_upload_is_refused(api: Api) -> None:
    asked = api.request("outside-source")
    files_hash = api.upload(asked["templateID"], archive(entry("a", content=b"x")))
    step = {"type": "COPY", "args": ["../../etc/passwd", "/x"], "filesHash": files_hash}
    api.start(asked, step)
    assert "leads out" in api.wait(asked)["reason"]["message"]
    missing = api.request("outside-source")
    step = {"type": "COPY", "args": ["b", "/x"], "filesHash": files_hash}
    api.start(missing, step)
    assert "'b' is not among the uploaded files" in api.wait(missing)["reason"]["message"]


def test_arguments_are_never_run_as_shell_text(api: Api) -> None:
    asked = api.request("quoting")
    odd = "a'; touch /pwned; echo '$(id)"
    files_hash = api.upload(asked["templateID"], archive(entry(odd, content=b"odd")))
    api.start(
        asked,
        {"type": "COPY", "args": [odd, f"/copied/{odd}"], "filesHash": files_hash},
        {"type": "WORKDIR", "args": ["/dir; touch /pwned"]},
        run("[ ! -e /pwned ] && [ -d '/dir; touch /pwned' ]"),
    )
    found = api.wait(asked)
    assert found["status"] == "ready", found


def test_a_step_that_uses_up_its_memory_says_so(api: Api) -> None:
    asked = api.request("memory", memoryMB=128)
    api.start(asked, run("exec python3 -c 'x = bytearray(1 << 30); print(len(x))'"))
    found = api.wait(asked)
    assert found["status"] == "error"
    assert found["reason"]["message"].endswith(
        ("signal: killed (out of memory)", "exit status 1")
    ), found["reason"]
