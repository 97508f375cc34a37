"""File routes answer odd requests as the reference does, and an error changes no file."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import time
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from .wire import Wire

OCTETS = "application/octet-stream"
FORM = "multipart/form-data; boundary=B"
PART = b'Content-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n'
PACKED = gzip.compress(b"new content")


def form(*files: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"--B\r\n" + PART % file for file in files) + b"--B--\r\n"


@pytest.mark.parametrize("target", ["old", "new"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not gzip at all",
        PACKED[:-1],
        PACKED[:-9],
        PACKED[:5],
        PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
        PACKED + b"trailing",
        gzip.compress(bytes(3 << 20))[:-4],
        gzip.compress(b"".join(b"%d " % number for number in range(900_000)), 1)[:-1],
    ],
    ids=["empty", "plain", "cut", "cut more", "head", "wrong sum", "more", "zeros", "large"],
)
def test_a_broken_gzip_body_leaves_every_file_as_it_was(
    wire: Wire, target: str, body: bytes
) -> None:
    path = f"/tmp/gzip-{target}"
    if target == "old":
        wire.write(path, b"old content")

    answer = wire.send("POST", f"/files?path={path}", body, OCTETS, Content_Encoding="gzip")

    assert answer.status_code == 400
    assert wire.read(path) == (b"old content" if target == "old" else None)


def test_a_broken_gzip_form_leaves_every_file_as_it_was(wire: Wire) -> None:
    wire.write("/tmp/first", b"old")
    body = gzip.compress(form((b"/tmp/first", b"new"), (b"/tmp/second", b"new")))

    broken = wire.send("POST", "/files", body[:-3], FORM, Content_Encoding="gzip")
    unchanged = wire.read("/tmp/first"), wire.read("/tmp/second")
    whole = wire.send("POST", "/files", body, FORM, Content_Encoding="gzip")

    assert (broken.status_code, whole.status_code) == (400, 200)
    assert unchanged == (b"old", None)
    assert (wire.read("/tmp/first"), wire.read("/tmp/second")) == (b"new", b"new")


def test_an_unknown_coding_leaves_the_file_as_it_was(wire: Wire) -> None:
    wire.write("/tmp/coded", b"old")

    answer = wire.send("POST", "/files?path=/tmp/coded", b"x", OCTETS, Content_Encoding="br")

    assert answer.status_code == 400
    assert wire.read("/tmp/coded") == b"old"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"--B",
        b"--B\r\n" + PART % (b"/tmp/form", b"new"),
        (b"--B\r\n" + PART % (b"/tmp/form", b"new"))[:-2],
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="/tmp/form"\r\n',
    ],
)
def test_a_broken_form_leaves_the_file_as_it_was(wire: Wire, body: bytes) -> None:
    wire.write("/tmp/form", b"old")

    assert wire.send("POST", "/files", body, FORM).status_code == 500
    assert wire.read("/tmp/form") == b"old"


NAME = b'filename="/tmp/odd-form"'


def mixed(line_end: bytes, preamble: bytes = b"") -> bytes:
    lines = (
        b"--B",
        b'Content-Disposition: form-data; name="file"; filename="/tmp/odd-form"',
        b"Content-Type: text/plain",
        b"",
        b"content",
        b"--B--",
        b"",
    )
    return preamble + line_end.join(lines)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (FORM, mixed(b"\r\n")),
        (FORM, mixed(b"\n")),
        (FORM, mixed(b"\r\n", b"A preamble\r\nof two lines.\r\n")),
        (FORM, mixed(b"\n", b"\n\n")),
        (FORM, mixed(b"\r\n").rstrip(b"\r\n")),
        (FORM, mixed(b"\r\n") + b"an epilogue"),
        (FORM, mixed(b"\r\n").replace(b"--B\r\n", b"--B  \r\n", 1)),
        (FORM, mixed(b"\r\n").replace(b'; filename="', b';\r\n\tfilename="')),
        (
            FORM,
            mixed(b"\r\n").replace(
                b'filename="/tmp/odd-form"', b"filename*=utf-8''%2Ftmp/odd-form"
            ),
        ),
        (
            FORM,
            mixed(b"\r\n").replace(b"filename=", b"filename*=UTF-8'en'/tmp/odd-form; filename=", 1),
        ),
        ('multipart/form-data; boundary="B"', mixed(b"\r\n")),
        ("Multipart/Form-Data; charset=utf-8; boundary=B", mixed(b"\r\n")),
        ("multipart/mixed; boundary=B", mixed(b"\r\n")),
    ],
)
def test_unusual_forms_are_read(wire: Wire, content_type: str, body: bytes) -> None:
    wire.run("rm -f /tmp/odd-form")

    answer = wire.send("POST", "/files", body, content_type)

    assert answer.status_code == 200, answer.text
    assert [written["path"] for written in answer.json()] == ["/tmp/odd-form"]
    assert wire.read("/tmp/odd-form") == b"content"


def test_a_file_name_in_another_alphabet_is_decoded(wire: Wire) -> None:
    body = mixed(b"\r\n").replace(NAME, b"filename*=utf-8''%2Ftmp%2Fna%C3%AFve%20caf%C3%A9")

    assert wire.send("POST", "/files", body, FORM).json()[0]["path"] == "/tmp/naïve café"


@pytest.mark.parametrize("content_type", ["multipart/related; boundary=B", "multipart/form-data"])
def test_other_kinds_of_multipart_are_refused(wire: Wire, content_type: str) -> None:
    assert wire.send("POST", "/files", mixed(b"\r\n"), content_type).status_code == 400


# Conditions, ranges, codings.

HOUR = 3600


@pytest.mark.parametrize(
    ("headers", "status", "content"),
    [
        ({}, 200, b"0123456789"),
        ({"If_Match": '"another"'}, 412, None),
        ({"If_Match": "*"}, 200, b"0123456789"),
        ({"If_Match": '"another"', "Accept_Encoding": "gzip"}, 412, None),
        ({"If_Unmodified_Since": formatdate(time.time() - HOUR, usegmt=True)}, 412, None),
        ({"If_Unmodified_Since": formatdate(time.time() + HOUR, usegmt=True)}, 200, b"0123456789"),
        ({"If_Unmodified_Since": "yesterday"}, 200, b"0123456789"),
        ({"If_Modified_Since": formatdate(time.time() + HOUR, usegmt=True)}, 304, b""),
        ({"Range": "bytes=0-1,"}, 206, b"01"),
        ({"Range": "bytes=,0-1"}, 206, b"01"),
        ({"Range": "bytes= 0-1 ,,"}, 206, b"01"),
        ({"Range": "bytes=-2"}, 206, b"89"),
        ({"Range": "bytes=,"}, 200, b"0123456789"),
        ({"Range": "bytes=10-"}, 416, None),
    ],
)
def test_conditions_and_ranges(
    wire: Wire, headers: dict[str, str], status: int, content: bytes | None
) -> None:
    wire.write("/tmp/digits", b"0123456789")

    wanted = {"Accept_Encoding": "", **headers}
    answer = wire.send("GET", "/files?path=/tmp/digits", b"", "", **wanted)

    assert answer.status_code == status
    assert content is None or answer.content == content


def test_the_tag_of_an_answer_matches_itself(wire: Wire) -> None:
    wire.write("/tmp/tagged", b"x")
    tag = wire.send("GET", "/files?path=/tmp/tagged", Accept_Encoding="").headers["etag"]

    answer = wire.send(
        "GET", "/files?path=/tmp/tagged", Accept_Encoding="", If_Match=f'"other", {tag}'
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("*", None),
        ("*;q=0.5", None),
        ("gzip, *", "gzip"),
        ("gzip;q=0.5, *", None),
        ("identity;q=0, *", "gzip"),
        ("gzip", "gzip"),
        ("br, zstd", None),
    ],
)
def test_any_coding_means_none(wire: Wire, accepted: str, coding: str | None) -> None:
    wire.write("/tmp/coded", b"x" * 1000)

    answer = wire.send("GET", "/files?path=/tmp/coded", Accept_Encoding=accepted)

    assert answer.status_code == 200
    assert answer.headers.get("content-encoding") == coding


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "text/markdown; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.ipynb", "application/x-ipynb+json"),
        ("a.toml", "application/toml"),
        ("a.woff2", "font/woff2"),
        ("a.json", "application/json"),
        ("A.HTML", "text/html; charset=utf-8"),
        ("plain", "text/plain; charset=utf-8"),
        ("a.tar.gz", "application/gzip"),
    ],
)
def test_content_types_are_those_of_the_system(wire: Wire, name: str, kind: str) -> None:
    wire.write(f"/tmp/{name}", b"some text")

    answer = wire.send("GET", f"/files?path=/tmp/{name}", Accept_Encoding="")

    assert answer.headers["content-type"] == kind


@pytest.mark.parametrize("name", ["a.sh", "a.yaml", "a.yml"])
def test_scripts_and_settings_have_a_type_of_their_own(wire: Wire, name: str) -> None:
    wire.write(f"/tmp/{name}", b"some text")

    kind = wire.send("GET", f"/files?path=/tmp/{name}", Accept_Encoding="").headers["content-type"]

    assert "yaml" in kind or "sh" in kind  # the tables of systems differ in the rest


# Routes, credentials, targets.


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("DELETE", "/files", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("GET", "/files/compose", {"POST", "OPTIONS"}),
        ("POST", "/health", {"GET", "OPTIONS"}),
        ("POST", "/metrics", {"GET", "OPTIONS"}),
        ("PUT", "/envs", {"GET", "OPTIONS"}),
        ("BREW", "/files", {"GET", "HEAD", "POST", "OPTIONS"}),
    ],
)
def test_a_wrong_verb_is_told_the_right_ones(
    wire: Wire, verb: str, path: str, allowed: set[str]
) -> None:
    answer = wire.send(verb, path)

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_the_connection_outlives_an_answer_that_comes_before_the_body(wire: Wire) -> None:
    connection = http.client.HTTPConnection(httpx.URL(wire.url).netloc.decode(), timeout=20)
    with contextlib.closing(connection):
        connection.putrequest("BREW", "/files")
        for name, value in {**wire.headers, "Content-Length": "4"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        with connection.getresponse() as answer:
            assert answer.status == 405
            answer.read()
        assert not answer.will_close
        connection.send(b"body")

        connection.request("GET", "/health", headers=wire.headers)

        assert connection.getresponse().status == 204


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://localhost/health", b"204"),
        (b"HTTP://localhost:3000/health?x=1", b"204"),
        (b"http://example.org/health", b"400"),
        (b"http://localhost", b"404"),
    ],
)
def test_a_request_line_may_have_the_whole_address(
    wire: Wire, target: bytes, status: bytes
) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in wire.headers.items()).encode()

    answer = wire.raw(
        b"GET %b HTTP/1.1\r\nHost: elsewhere.invalid\r\nConnection: close\r\n%b\r\n"
        % (target, headers)
    )

    assert answer.split(b" ", 2)[1] == status, answer


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("&username=user", 200),
        ("&username=", 401),
        ("&username=nobody-here", 401),
        ("&signature_expiration=1", 200),
        ("&signature_expiration=abc", 400),
        ("&signature_expiration=1.5", 400),
    ],
)
def test_the_query_of_a_file_request(wire: Wire, query: str, status: int) -> None:
    wire.write("/tmp/asked", b"x")

    read = wire.send("GET", f"/files?path=/tmp/asked{query}")
    written = wire.send("POST", f"/files?path=/tmp/asked{query}", b"y", OCTETS)

    assert (read.status_code, written.status_code) == (status, status)
    assert wire.read("/tmp/asked") == (b"y" if status == 200 else b"x")


@pytest.mark.parametrize("path", ["/tmp/folder/", "/tmp/none/", "some/", "/", "~/"])
def test_a_target_that_ends_in_a_slash_is_a_directory(wire: Wire, path: str) -> None:
    raw = wire.send("POST", f"/files?path={path}", b"x", OCTETS)
    in_form = wire.send("POST", "/files", form((path.encode(), b"x")), FORM)

    assert (raw.status_code, in_form.status_code) == (400, 400)
    assert wire.run(f"test -f {path.rstrip('/') or '/'} && echo made") == ""


def test_the_first_of_two_metadata_headers_counts(wire: Wire) -> None:
    headers = [("X-Metadata-Who", "first"), ("x-metadata-who", "second")]

    answer = wire.client.post(
        "/files",
        params={"path": "/tmp/who"},
        content=b"x",
        headers=[*headers, ("Content-Type", OCTETS)],
    )

    assert answer.status_code == 200
    assert answer.json()[0].get("metadata", {"who": "first"}) == {"who": "first"}


def test_an_overwritten_file_changes_its_owner_before_its_content(wire: Wire) -> None:
    wire.run("mkdir -p /tmp/watched")
    wire.write("/tmp/watched/f", b"old")
    watcher = wire.call("filesystem.Filesystem/CreateWatcher", b'{"path":"/tmp/watched"}').json()

    wire.write("/tmp/watched/f", b"new")

    events = fetch(wire, watcher["watcherId"])
    assert [event["type"] for event in events] == ["EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"]


def fetch(wire: Wire, watcher_id: str) -> list[Any]:
    body = b'{"watcherId":"%b"}' % watcher_id.encode()
    return wire.call("filesystem.Filesystem/GetWatcherEvents", body).json()["events"]
