"""RPCs answer odd requests as the reference does, byte for byte in, code for code out."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from .wire import GRPC_WEB, JSON, PROTO, STREAM, Wire, envelope, envelopes, outcome

FILES = "filesystem.Filesystem"
PROCESS = "process.Process"
BINARY_STREAM = "application/connect+proto"
SLEEPER = {"process": {"cmd": "sleep", "args": ["600"]}, "tag": "sleeper", "stdin": True}


@pytest.fixture(scope="module")
def sleeper(wire: Wire) -> Iterator[int]:
    """The pid of a process that only sleeps, started with a pipe to its stdin."""
    with wire.client.stream(
        "POST", f"/{PROCESS}/Start", content=envelope(SLEEPER), headers={"Content-Type": STREAM}
    ) as answer:
        first = next(answer.iter_raw())
        (_, start), *_ = envelopes(first)
    pid = start["event"]["start"]["pid"]
    yield pid
    wire.call(f"{PROCESS}/SendSignal", b'{"process":{"pid":%d},"signal":9}' % pid)


def is_running(wire: Wire, pid: int) -> bool:
    listed = wire.call(f"{PROCESS}/List", b"{}").json().get("processes", [])
    return pid in [process["pid"] for process in listed]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"path":"/etc","depth":2147483648}', "ok"),
        (b'{"path":"/etc","depth":4294967295}', "ok"),
        (b'{"path":"/etc","depth":"1"}', "ok"),
        (b'{"path":"/etc","depth":1.0}', "ok"),
        (b'{"path":"/etc","depth":1e0}', "ok"),
        (b'{"path":"/etc","depth":null}', "ok"),
        (b'{"path":"/etc","unknown":{"a":1,"a":2}}', "ok"),
        (b'{"path":"/etc","depth":4294967296}', "invalid_argument"),
        (b'{"path":"/etc","depth":-1}', "invalid_argument"),
        (b'{"path":"/etc","depth":1.5}', "invalid_argument"),
        (b'{"path":"/etc","depth":true}', "invalid_argument"),
        (b'{"path":"/etc","depth":"x"}', "invalid_argument"),
        (b'{"path":"/etc","path":"/"}', "invalid_argument"),
        (b'{"path":["/etc"]}', "invalid_argument"),
        (b'{"path":"\\ud800"}', "invalid_argument"),
        (b'{"path":"/etc"}x', "invalid_argument"),
        (b'{"path":"/etc","x":NaN}', "invalid_argument"),
        (b"", "invalid_argument"),
        (b"null", "invalid_argument"),
        (b"[]", "invalid_argument"),
    ],
)
def test_list_dir_in_json(wire: Wire, body: bytes, expected: str) -> None:
    assert outcome(wire.call(f"{FILES}/ListDir", body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x0a\x04/etc\x10\x80\x80\x80\x80\x08", "ok"),  # depth 2147483648
        (b"\x0a\x04/etc\x10\xff\xff\xff\xff\x0f", "ok"),  # depth 4294967295
        (b"\x0a\x04/etc\x98\x06\x01", "ok"),  # an unknown field
        (b"", "ok"),  # all fields unset is a message
        (b"\x0a\x04/et", "invalid_argument"),
        (b"\x0a\x02\xff\xfe", "invalid_argument"),  # not UTF-8
    ],
)
def test_list_dir_in_binary(wire: Wire, body: bytes, expected: str) -> None:
    assert outcome(wire.call(f"{FILES}/ListDir", body, PROTO)) == expected


def test_every_method_refuses_an_empty_json_body(wire: Wire) -> None:
    for method in ("List", "Update", "SendInput", "SendSignal", "CloseStdin"):
        assert outcome(wire.call(f"{PROCESS}/{method}", b"")) == "invalid_argument", method


def test_listed_and_watched_paths_are_cleaned(wire: Wire) -> None:
    wire.run("mkdir -p /tmp/o/d && touch /tmp/o/d/f")

    listed = wire.call(f"{FILES}/ListDir", b'{"path":"/tmp/o//d/../d"}').json()["entries"]
    watch = b'{"path":"/tmp/o//d/../d","includeEntry":true}'
    watcher = wire.call(f"{FILES}/CreateWatcher", watch).json()["watcherId"]
    wire.run("touch /tmp/o/d/new")
    fetched = wire.call(f"{FILES}/GetWatcherEvents", b'{"watcherId":"%s"}' % watcher.encode())

    assert [entry["path"] for entry in listed] == ["/tmp/o/d/f"]
    assert {event["entry"]["path"] for event in fetched.json()["events"]} == {"/tmp/o/d/new"}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("/+8=", b"\xff\xef"),
        ("/+8", b"\xff\xef"),
        ("_-8=", b"\xff\xef"),
        ("_-8", b"\xff\xef"),
        ("_+8", None),
        ("a", None),
        ("*", None),
    ],
)
def test_bytes_in_json_have_four_forms(wire: Wire, text: str, content: bytes | None) -> None:
    with wire.client.stream(
        "POST",
        f"/{PROCESS}/Start",
        content=envelope({"process": {"cmd": "head", "args": ["-c", "2"]}, "stdin": True}),
        headers={"Content-Type": STREAM},
    ) as stream:
        pieces = stream.iter_raw()
        ((_, start),) = envelopes(next(pieces))
        pid = start["event"]["start"]["pid"]
        body = json.dumps({"process": {"pid": pid}, "input": {"stdin": text}}).encode()
        answer = wire.call(f"{PROCESS}/SendInput", body)
        if content is None:
            assert outcome(answer) == "invalid_argument"
            wire.call(f"{PROCESS}/SendSignal", b'{"process":{"pid":%d},"signal":9}' % pid)
            return
        assert outcome(answer) == "ok"
        rest = b"".join(pieces)
    output = envelopes(rest)[0][1]["event"]["data"]["stdout"]
    assert output == "/+8="


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (b'"15"', "unimplemented"),
        (b'"9"', "unimplemented"),
        (b'"SIGNAL_NONE"', "unimplemented"),
        (b'"SIGNAL_UNSPECIFIED"', "unimplemented"),
        (b"0", "unimplemented"),
        (b"2", "unimplemented"),
        (b"null", "unimplemented"),
        (b"true", "invalid_argument"),
        (b"[]", "invalid_argument"),
        (b"9.5", "invalid_argument"),
    ],
)
def test_only_two_signals_are_sent(wire: Wire, sleeper: int, signal: bytes, expected: str) -> None:
    answer = wire.call(
        f"{PROCESS}/SendSignal", b'{"process":{"pid":%d},"signal":%b}' % (sleeper, signal)
    )

    assert outcome(answer) == expected
    assert is_running(wire, sleeper)


def test_only_two_signals_are_sent_in_binary(wire: Wire, sleeper: int) -> None:
    selector = b"\x08" + varint(sleeper)
    body = b"\x0a" + bytes([len(selector)]) + selector + b"\x10\x02"

    assert outcome(wire.call(f"{PROCESS}/SendSignal", body, PROTO)) == "unimplemented"
    assert is_running(wire, sleeper)


def varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (b"{}", "unimplemented"),
        (b"null", "unimplemented"),
        (b'{"tag":"sleeper"}', "ok"),
        (b'{"tag":"sleeper","pid":null}', "ok"),
        (b'{"pid":1,"tag":"sleeper"}', "invalid_argument"),
        (b'{"tag":"a","tag":"sleeper"}', "invalid_argument"),
        (b'{"pid":-1}', "invalid_argument"),
        (b'{"pid":8589934592}', "invalid_argument"),
        (b'{"pid":4294967295}', "not_found"),
        (b'{"pid":"4294967295"}', "not_found"),
    ],
)
def test_a_process_is_selected_by_exactly_one_member(
    wire: Wire, sleeper: int, selector: bytes, expected: str
) -> None:
    del sleeper
    assert outcome(wire.call(f"{PROCESS}/Update", b'{"process":%b}' % selector)) == expected


def test_binary_messages_without_a_selector_are_unimplemented(wire: Wire) -> None:
    assert outcome(wire.call(f"{PROCESS}/Update", b"", PROTO)) == "unimplemented"
    assert outcome(wire.call(f"{PROCESS}/Connect", envelope(b""), BINARY_STREAM)) == "unimplemented"


def test_input_has_one_kind(wire: Wire, sleeper: int) -> None:
    both = b'{"process":{"pid":%d},"input":{"stdin":"YQ==","pty":"YQ=="}}' % sleeper

    assert outcome(wire.call(f"{PROCESS}/SendInput", both)) == "invalid_argument"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["start"], "ok"),
        ([], "ok"),
        (["keepalive"], "ok"),
        (["keepalive", "start", "data"], "ok"),
        (["start", "start", "data"], "ok"),
        (["start", "keepalive", "data"], "ok"),
        (["start", "unset"], "unimplemented"),
        (["unset"], "unimplemented"),
        (["data"], "invalid_argument"),
        (["both"], "invalid_argument"),
    ],
)
def test_input_streams(wire: Wire, sleeper: int, events: list[str], expected: str) -> None:
    start = {"start": {"process": {"pid": sleeper}}}
    messages = {
        "start": start,
        "data": {"data": {"input": {"stdin": "YQ=="}}},
        "keepalive": {"keepalive": {}},
        "unset": {},
        "both": {**start, "keepalive": {}},
    }
    body = b"".join(envelope(messages[event]) for event in events)

    assert outcome(wire.call(f"{PROCESS}/StreamInput", body, STREAM)) == expected


@pytest.mark.parametrize("size", [131_071, 200_000, 5_000_000])
def test_an_argument_that_no_program_can_get_is_refused(wire: Wire, size: int) -> None:
    request = {"process": {"cmd": "true", "args": ["x" * size]}, "stdin": False}
    expected = "ok" if size < 131_072 else "invalid_argument"

    assert outcome(wire.call(f"{PROCESS}/Start", envelope(request), STREAM)) == expected


def test_many_arguments_that_are_too_much_together_are_refused(wire: Wire) -> None:
    request = {"process": {"cmd": "true", "args": ["x" * 100_000] * 50}, "stdin": False}

    assert outcome(wire.call(f"{PROCESS}/Start", envelope(request), STREAM)) == "invalid_argument"


# Compression.


@pytest.mark.parametrize(
    ("coding", "body", "expected"),
    [
        ("gzip", gzip.compress(b'{"path":"/etc"}'), "ok"),
        ("GZIP", gzip.compress(b'{"path":"/etc"}'), "ok"),
        ("identity", b'{"path":"/etc"}', "ok"),
        ("gzip", gzip.compress(b'{"path":"/etc"}')[:-6], "invalid_argument"),
        ("gzip", b'{"path":"/etc"}', "invalid_argument"),
        ("gzip", b"", "invalid_argument"),
        ("br", b'{"path":"/etc"}', "unimplemented"),
        ("gzip, gzip", b'{"path":"/etc"}', "unimplemented"),
    ],
)
def test_unary_requests_may_be_compressed(
    wire: Wire, coding: str, body: bytes, expected: str
) -> None:
    answer = wire.call(f"{FILES}/Stat", body, Content_Encoding=coding)

    assert outcome(answer) == expected
    assert "content-encoding" not in answer.headers


def test_a_compressed_binary_request_is_read(wire: Wire) -> None:
    answer = wire.call(
        f"{FILES}/Stat", gzip.compress(b"\x0a\x04/etc"), PROTO, Content_Encoding="gzip"
    )

    assert outcome(answer) == "ok"


@pytest.mark.parametrize(
    ("coding", "flags", "is_packed", "expected"),
    [
        ("gzip", 1, True, "ok"),
        ("gzip", 0, False, "ok"),
        ("gzip", 1, False, "invalid_argument"),
        ("", 1, True, "invalid_argument"),
        ("zstd", 1, True, "unimplemented"),
    ],
)
def test_messages_of_streams_may_be_compressed(
    wire: Wire, coding: str, flags: int, *, is_packed: bool, expected: str
) -> None:
    message = b'{"process":{"cmd":"true"},"stdin":false}'
    body = envelope(gzip.compress(message) if is_packed else message, flags)
    headers = {"Connect_Content_Encoding": coding} if coding else {}

    answer = wire.call(f"{PROCESS}/Start", body, STREAM, **headers)

    assert outcome(answer) == expected
    assert all(not flags & 1 for flags, _ in envelopes(answer.content))


def test_compressed_input_of_a_stream_is_taken(wire: Wire, sleeper: int) -> None:
    start = gzip.compress(b'{"start":{"process":{"pid":%d}}}' % sleeper)
    body = envelope(start, 1) + envelope({"data": {"input": {"stdin": "YQ=="}}})

    answer = wire.call(f"{PROCESS}/StreamInput", body, STREAM, Connect_Content_Encoding="gzip")

    assert outcome(answer) == "ok"


def test_a_message_that_unpacks_to_more_than_the_limit_is_refused(wire: Wire) -> None:
    bomb = gzip.compress(bytes(65 << 20))

    answer = wire.call(f"{FILES}/Stat", bomb, Content_Encoding="gzip")

    assert outcome(answer) == "resource_exhausted"


# gRPC-Web.


def trailers(raw: bytes) -> tuple[list[Any], dict[str, str]]:
    """The messages and the trailers of a gRPC-Web answer."""
    *messages, (flags, text) = envelopes(raw)
    assert flags == 0x80
    return [message for _, message in messages], dict(
        line.split(": ", 1) for line in text.strip().split("\r\n")
    )


def test_a_unary_call_over_grpc_web(wire: Wire) -> None:
    answer = wire.call(f"{FILES}/Stat", envelope({"path": "/etc"}), GRPC_WEB)

    assert (answer.status_code, answer.headers["content-type"]) == (200, GRPC_WEB)
    (message,), found = trailers(answer.content)
    assert message["entry"]["path"] == "/etc"
    assert found == {"grpc-status": "0"}


def test_a_failed_call_over_grpc_web_says_so_in_its_trailers(wire: Wire) -> None:
    answer = wire.call(f"{FILES}/Stat", envelope({"path": "/none\r\ngrpc-status: 0"}), GRPC_WEB)

    assert answer.status_code == 200
    messages, found = trailers(answer.content)
    assert messages == []
    assert found["grpc-status"] == "5"
    assert "%0D%0A" in found["grpc-message"]


def test_a_process_streams_over_grpc_web(wire: Wire) -> None:
    request = {"process": {"cmd": "echo", "args": ["hi"]}, "stdin": False}

    answer = wire.call(f"{PROCESS}/Start", envelope(request), GRPC_WEB)

    messages, found = trailers(answer.content)
    kinds = [next(iter(message["event"])) for message in messages]
    assert kinds == ["start", "data", "end"]
    assert found == {"grpc-status": "0"}


@pytest.mark.parametrize("kind", ["application/grpc-web", "application/grpc-web+proto"])
def test_grpc_web_is_binary_by_default(wire: Wire, kind: str) -> None:
    answer = wire.call(f"{FILES}/Stat", envelope(b"\x0a\x04/etc"), kind)

    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    size = struct.unpack(">I", answer.content[1:5])[0]
    assert b"/etc" in answer.content[5 : 5 + size]
    assert answer.content[5 + size :].endswith(b"grpc-status: 0\r\n")


def test_the_time_limit_of_grpc_web_is_kept(wire: Wire) -> None:
    request = {"process": {"cmd": "sleep", "args": ["60"]}, "stdin": False}

    answer = wire.call(f"{PROCESS}/Start", envelope(request), GRPC_WEB, Grpc_Timeout="200m")

    assert trailers(answer.content)[1]["grpc-status"] == "4"


def test_messages_of_grpc_web_may_be_compressed(wire: Wire) -> None:
    body = envelope(gzip.compress(b'{"path":"/etc"}'), 1)

    packed = wire.call(f"{FILES}/Stat", body, GRPC_WEB, Grpc_Encoding="gzip")
    unknown = wire.call(f"{FILES}/Stat", body, GRPC_WEB, Grpc_Encoding="snappy")

    assert trailers(packed.content)[1]["grpc-status"] == "0"
    assert trailers(unknown.content)[1]["grpc-status"] == "12"


def test_grpc_itself_needs_http_2_and_is_refused(wire: Wire) -> None:
    answer = wire.call(f"{FILES}/Stat", envelope(b""), "application/grpc")

    assert answer.status_code == 415
    assert "application/grpc-web" in answer.headers["accept-post"]


# Users and processes.


@pytest.mark.parametrize("credentials", ["Og==", "OnNlY3JldA=="])
def test_basic_credentials_without_a_name_are_refused(wire: Wire, credentials: str) -> None:
    answer = wire.call(f"{FILES}/Stat", b'{"path":"/"}', Authorization=f"Basic {credentials}")

    assert outcome(answer) == "unauthenticated"


def test_for_want_of_memory_programs_are_killed_before_those_of_the_machine(wire: Wire) -> None:
    assert wire.run("cat /proc/self/oom_score_adj").strip() == "100"


def test_a_process_on_pipes_has_no_session_of_its_own_and_usual_signals(wire: Wire) -> None:
    session, ignored = wire.run(
        "cut -d' ' -f6 /proc/self/stat; grep SigIgn /proc/self/status | cut -f2"
    ).split()

    if wire.run("cat /proc/1/comm") != "":  # the sandbox has its own process numbers
        assert session in ("0", "1")
    assert int(ignored, 16) == 0


def test_calls_by_another_verb_name_the_right_one(wire: Wire) -> None:
    answer = wire.send("GET", f"/{FILES}/Stat")

    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


def test_unary_content_types_are_kept_apart_from_streams(wire: Wire) -> None:
    assert wire.call(f"{FILES}/Stat", envelope({}), STREAM).status_code == 415
    assert wire.call(f"{PROCESS}/Start", b"{}", JSON).status_code == 415


def test_what_is_local_does_not_go_through_the_proxy(wire: Wire) -> None:
    script = (
        'test -n "$NO_PROXY" || exit 0; python3 -m http.server 8011 >/dev/null 2>&1 & '
        "until curl -s -o /dev/null http://localhost:8011/; do sleep 0.05; done; "
        'for host in 0.0.0.0 127.0.0.5 127.0.1.1 "$(hostname)" localhost; do '
        'curl -s -o /dev/null -w "%{http_code} " "http://$host:8011/"; done; kill %1'
    )

    assert set(wire.run(script).split()) <= {"200"}
