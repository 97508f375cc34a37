"""Connect RPC over HTTP: interface 3, Appendix A, B, F and G."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading

import httpx
import pytest

from tests.checks import check_error, check_gateway_error
from tests.engine_process import EngineProcess
from tests.service.conftest import SandboxAccess, create_sandbox
from tests.service.rpc import (
    STREAM,
    drain,
    envelope,
    envelopes,
    output_of,
    run,
    start_request,
    stream,
    unary,
    unread,
)
from tests.waiting import PATIENCE, until, until_steady


def test_a_unary_call_answers_plain_json(runtime: httpx.Client) -> None:
    answer = unary(runtime, "filesystem.Filesystem/Stat", {"path": "/etc"})

    assert answer.headers["content-type"] == "application/json"
    entry = answer.json()["entry"]
    assert (entry["path"], entry["type"]) == ("/etc", "FILE_TYPE_DIRECTORY")
    assert entry["modifiedTime"].endswith("Z")


def test_an_empty_answer_is_an_object(runtime: httpx.Client) -> None:
    answer = unary(runtime, "filesystem.Filesystem/Remove", {"path": "/home/user/none"})

    assert (answer.status_code, answer.content) == (200, b"{}")


def test_rpc_answers_are_never_compressed(runtime: httpx.Client) -> None:
    answer = unary(
        runtime,
        "filesystem.Filesystem/ListDir",
        {"path": "/usr/bin"},
        **{"Accept-Encoding": "gzip"},
    )

    assert "content-encoding" not in answer.headers


def test_the_content_type_may_carry_a_charset(runtime: httpx.Client) -> None:
    answer = runtime.post(
        "/filesystem.Filesystem/Stat",
        content=b'{"path":"/"}',
        headers={"Content-Type": "application/json; charset=utf-8"},
    )

    assert answer.status_code == 200


def test_a_process_and_its_stream_end_in_one_piece(runtime: httpx.Client) -> None:
    content, headers = envelope(start_request("echo hi")), {"Content-Type": STREAM}

    with runtime.stream("POST", "/process.Process/Start", content=content, headers=headers) as it:
        (end,) = [piece for piece in it.iter_raw() if b'"end"' in piece]

    assert [flags for flags, _ in envelopes(end)] == [0, 2]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("filesystem.Filesystem/Stat", "application/connect+proto"),
        ("filesystem.Filesystem/Stat", "application/connect+json"),
        ("filesystem.Filesystem/Stat", ""),
        ("process.Process/Start", "application/json"),
        ("process.Process/Start", "application/grpc"),
        ("process.Process/StreamInput", "application/proto"),
    ],
)
def test_another_content_type_is_415(runtime: httpx.Client, method: str, kind: str) -> None:
    answer = runtime.post(f"/{method}", content=b"{}", headers={"Content-Type": kind})

    assert answer.status_code == 415
    assert answer.headers["accept-post"]


def test_another_verb_is_405_and_an_unknown_method_404(runtime: httpx.Client) -> None:
    assert runtime.get("/filesystem.Filesystem/Stat").status_code == 405
    answer = unary(runtime, "filesystem.Filesystem/Nope", {})
    check_error(answer, 404, code="unimplemented")


@pytest.mark.parametrize(
    ("method", "message", "status", "code"),
    [
        ("filesystem.Filesystem/Stat", {"path": "/none"}, 404, "not_found"),
        ("filesystem.Filesystem/Stat", {"path": "~other/x"}, 400, "invalid_argument"),
        ("filesystem.Filesystem/ListDir", {"path": "/etc/passwd"}, 400, "invalid_argument"),
        ("filesystem.Filesystem/ListDir", {"path": "/none"}, 404, "not_found"),
        ("filesystem.Filesystem/ListDir", {"path": "/etc", "depth": -1}, 400, "invalid_argument"),
        ("filesystem.Filesystem/MakeDir", {"path": "/etc"}, 409, "already_exists"),
        ("filesystem.Filesystem/MakeDir", {"path": "/etc/passwd"}, 400, "invalid_argument"),
        ("filesystem.Filesystem/Move", {"source": "/no", "destination": "/x"}, 404, "not_found"),
        ("process.Process/SendSignal", {"process": {"pid": 99999}, "signal": 9}, 404, "not_found"),
        ("process.Process/SendInput", {"process": {"tag": "no"}}, 404, "not_found"),
        ("process.Process/CloseStdin", {"process": {}}, 501, "unimplemented"),
        ("process.Process/Update", {"process": {"pid": 99999}}, 404, "not_found"),
    ],
)
def test_errors_of_unary_calls(
    runtime: httpx.Client, method: str, message: object, status: int, code: str
) -> None:
    check_error(unary(runtime, method, message), status, code=code)


def test_a_selector_that_matches_nothing_is_named(runtime: httpx.Client) -> None:
    answer = unary(runtime, "process.Process/CloseStdin", {"process": {"pid": 99999}})

    assert answer.json()["message"] == "process with pid 99999 not found"


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b"[]", b'{"path":5}', b"[" * 50_000, b'{"path":' + b"[" * 50_000]
)
def test_a_broken_message_is_invalid_argument(runtime: httpx.Client, body: bytes) -> None:
    answer = runtime.post(
        "/filesystem.Filesystem/Stat", content=body, headers={"Content-Type": "application/json"}
    )

    check_error(answer, 400, code="invalid_argument")


def test_hostile_paths_are_errors_and_nothing_more(runtime: httpx.Client) -> None:
    for path in (
        "a\0b",
        "/" + "x" * 5000,
        "/" + "a/" * 3000,
        "/dev/null/x",
        "\udcff".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    ):
        answer = unary(runtime, "filesystem.Filesystem/Stat", {"path": path})
        assert 400 <= answer.status_code < 600, path
        assert isinstance(answer.json()["code"], str)
    assert runtime.get("/health").status_code == 204


def test_an_unknown_user_is_unauthenticated(runtime: httpx.Client) -> None:
    headers = {"Authorization": "Basic " + base64.b64encode(b"nobody-here:").decode()}

    answer = unary(runtime, "filesystem.Filesystem/Stat", {"path": ""}, **headers)
    messages = stream(runtime, "process.Process/Start", start_request("true"), **headers)

    check_error(answer, 401, "invalid username: 'nobody-here'", code="unauthenticated")
    assert messages == [{"error": {"code": "unauthenticated", "message": answer.json()["message"]}}]


def test_the_chosen_user_decides_the_home(runtime: httpx.Client) -> None:
    headers = {"Authorization": "Basic " + base64.b64encode(b"root:").decode()}

    entry = unary(runtime, "filesystem.Filesystem/Stat", {"path": ""}, **headers).json()["entry"]

    assert entry["path"] == "/root"


def test_without_the_token_every_call_is_a_plain_401(runtime: httpx.Client) -> None:
    for method, kind in (
        ("filesystem.Filesystem/Stat", "application/json"),
        ("process.Process/Start", STREAM),
        ("process.Process/StreamInput", STREAM),
    ):
        for token in ("", "wrong"):
            answer = runtime.post(
                f"/{method}",
                content=b"{}",
                headers={"Content-Type": kind, "X-Access-Token": token},
            )
            check_gateway_error(answer, 401, "unauthorized access")


def test_a_stream_starts_carries_output_and_ends(runtime: httpx.Client) -> None:
    messages = stream(runtime, "process.Process/Start", start_request("echo hi; echo no >&2"))

    assert messages[0]["event"]["start"]["pid"] > 1
    assert output_of(messages, "stdout") == b"hi\n"
    assert output_of(messages, "stderr") == b"no\n"
    assert messages[-2]["event"]["end"] == {"exited": True, "status": "exit status 0"}
    assert messages[-1] == {}


def test_failures_of_streams_are_in_the_end_of_stream(runtime: httpx.Client) -> None:
    for method, message, code in (
        ("process.Process/Connect", {"process": {"pid": 99999}}, "not_found"),
        ("process.Process/Connect", {}, "unimplemented"),
        ("process.Process/Start", {"process": {"cmd": "/x", "cwd": "/none"}}, "invalid_argument"),
    ):
        (end,) = stream(runtime, method, message)
        assert end["error"]["code"] == code, end


def test_an_unknown_program_ends_with_127(runtime: httpx.Client) -> None:
    messages = stream(runtime, "process.Process/Start", {"process": {"cmd": "/no/such"}})

    assert messages[-2]["event"]["end"]["exitCode"] == 127


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0\0\x05{}",
        b"\0\0",
        envelope({}) + envelope({}),
        b"\x01\0\0\0\x02{}",
        b"\0\xff\xff\xff\xff",
        b"\x80\0\0\0\x02{}",
        envelope(b"{"),
    ],
)
def test_a_broken_stream_request_ends_with_an_error(runtime: httpx.Client, body: bytes) -> None:
    answer = runtime.post("/process.Process/Start", content=body, headers={"Content-Type": STREAM})

    assert answer.status_code == 200
    ((flags, end),) = envelopes(answer.content)
    assert flags == 2
    assert end["error"]["code"] in ("invalid_argument", "resource_exhausted")


def test_a_message_above_64_mib_is_resource_exhausted(
    engine: EngineProcess, shared: SandboxAccess
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in shared.headers().items())
    head = (
        f"POST /filesystem.Filesystem/Stat HTTP/1.1\r\nHost: localhost\r\n{lines}"
        "Content-Type: application/json\r\nContent-Length: 70000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(head.encode())
        answer = sock.recv(65536)

    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"resource_exhausted" in answer


def test_the_timeout_kills_the_process_of_start(runtime: httpx.Client) -> None:
    messages = stream(
        runtime,
        "process.Process/Start",
        start_request("echo $$; sleep 1000"),
        **{"Connect-Timeout-Ms": "2000"},
    )

    assert messages[-1]["error"]["code"] == "deadline_exceeded"
    pid = int(output_of(messages, "stdout"))
    assert run(runtime, f"kill -0 {pid}")[0] != 0


def test_the_timeout_of_connect_ends_only_the_stream(runtime: httpx.Client) -> None:
    with runtime.stream(
        "POST",
        "/process.Process/Start",
        content=envelope(start_request("sleep 30")),
        headers={"Content-Type": STREAM},
    ) as answer:
        pid = next(envelopes(next(answer.iter_raw())))[1]["event"]["start"]["pid"]
    selector = {"process": {"pid": pid}}

    messages = stream(runtime, "process.Process/Connect", selector, **{"Connect-Timeout-Ms": "300"})

    assert messages[-1]["error"]["code"] == "deadline_exceeded"
    pids = [p["pid"] for p in unary(runtime, "process.Process/List", {}).json()["processes"]]
    assert pid in pids
    killed = unary(runtime, "process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGKILL"})
    assert (killed.status_code, killed.json()) == (200, {})


def test_other_signals_are_unimplemented(runtime: httpx.Client) -> None:
    selector = {"process": {"tag": "signalled"}}
    with runtime.stream(
        "POST",
        "/process.Process/Start",
        content=envelope(start_request("sleep 30", tag="signalled")),
        headers={"Content-Type": STREAM},
    ) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        for signal in (1, "SIGNAL_UNSPECIFIED", "x"):
            refused = unary(runtime, "process.Process/SendSignal", {**selector, "signal": signal})
            check_error(refused, 501, code="unimplemented")
        unary(runtime, "process.Process/SendSignal", {**selector, "signal": 15})
        messages = [message for _, message in envelopes(b"".join(pieces))]

    assert messages[0]["event"]["end"] == {
        "exitCode": -1,
        "status": "signal: terminated",
        "error": "signal: terminated",
    }


def test_input_by_messages_and_by_a_stream(runtime: httpx.Client) -> None:
    found: list[bytes] = []
    started = threading.Event()
    pid = 0

    def follow() -> None:
        nonlocal pid
        with runtime.stream(
            "POST",
            "/process.Process/Start",
            content=envelope({"process": {"cmd": "sh", "args": ["-c", "cat; sleep 1"]}}),
            headers={"Content-Type": STREAM},
        ) as answer:
            received = b""
            for piece in answer.iter_raw():
                received += piece
                if not started.is_set():
                    pid = next(envelopes(received))[1]["event"]["start"]["pid"]
                    started.set()
            found.append(received)

    thread = threading.Thread(target=follow)
    thread.start()
    assert started.wait(PATIENCE)
    selector = {"process": {"pid": pid}}
    one = base64.b64encode(b"one ").decode()
    answer = unary(runtime, "process.Process/SendInput", {**selector, "input": {"stdin": one}})
    assert (answer.status_code, answer.json()) == (200, {})
    parts = [envelope({"start": selector})]
    parts += [
        envelope({"data": {"input": {"stdin": base64.b64encode(text).decode()}}})
        for text in (b"two ", b"three")
    ]
    parts.insert(2, envelope({"keepalive": {}}))
    streamed = runtime.post(
        "/process.Process/StreamInput",
        content=iter([bytes([byte]) for byte in b"".join(parts)]),
        headers={"Content-Type": STREAM},
    )
    assert streamed.headers["content-type"] == STREAM
    assert list(envelopes(streamed.content)) == [(0, {}), (2, {})]
    pty = unary(runtime, "process.Process/SendInput", {**selector, "input": {"pty": one}})
    check_error(pty, 500, code="internal")
    neither = unary(runtime, "process.Process/SendInput", {**selector, "input": {}})
    check_error(neither, 501, code="unimplemented")
    assert unary(runtime, "process.Process/CloseStdin", selector).status_code == 200
    assert unary(runtime, "process.Process/CloseStdin", selector).status_code == 200
    thread.join(PATIENCE)
    messages = [message for _, message in envelopes(found[0])]
    assert output_of(messages, "stdout") == b"one two three"


def test_stream_input_to_nobody_is_answered_before_the_client_ends(
    engine: EngineProcess, shared: SandboxAccess
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in shared.headers().items())
    head = (
        f"POST /process.Process/StreamInput HTTP/1.1\r\nHost: localhost\r\n{lines}"
        f"Content-Type: {STREAM}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    body = envelope({"start": {"process": {"pid": 99999}}})
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(head + b"%x\r\n%b\r\n" % (len(body), body))
        answer = sock.recv(65536)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"process with pid 99999 not found" in answer


def test_stream_input_must_begin_with_start(runtime: httpx.Client) -> None:
    answer = runtime.post(
        "/process.Process/StreamInput",
        content=envelope({"data": {"input": {"stdin": ""}}}),
        headers={"Content-Type": STREAM},
    )

    assert next(envelopes(answer.content))[1]["error"]["code"] == "invalid_argument"


def test_pings_fill_the_silence(runtime: httpx.Client) -> None:
    messages = stream(
        runtime,
        "process.Process/Start",
        start_request("sleep 2.5"),
        **{"Keepalive-Ping-Interval": "1"},
    )

    assert messages.count({"event": {"keepalive": {}}}) == 2


def test_a_client_that_leaves_does_not_end_the_process(runtime: httpx.Client) -> None:
    script = "until [ -e /tmp/gone ]; do sleep 0.05; done; touch /tmp/after-leaving; sleep 20"
    with runtime.stream(
        "POST",
        "/process.Process/Start",
        content=envelope(start_request(script, tag="left")),
        headers={"Content-Type": STREAM},
    ) as answer:
        next(answer.iter_raw())

    run(runtime, "touch /tmp/gone")
    left = {"path": "/tmp/after-leaving"}
    until(lambda: unary(runtime, "filesystem.Filesystem/Stat", left).status_code == 200)
    listed = unary(runtime, "process.Process/List", {}).json()["processes"]
    assert "left" in [each.get("tag") for each in listed]
    unary(runtime, "process.Process/SendSignal", {"process": {"tag": "left"}, "signal": 9})


def test_a_terminal_is_replayed_from_a_sequence(runtime: httpx.Client) -> None:
    request = {
        "process": {"cmd": "/bin/sh", "args": ["-c", "printf abcdef; sleep 20"]},
        "pty": {"size": {"cols": 80, "rows": 24}},
        "tag": "replayed",
    }
    with runtime.stream(
        "POST",
        "/process.Process/Start",
        content=envelope(request),
        headers={"Content-Type": STREAM},
    ) as answer:
        received = b""
        for piece in answer.iter_raw():
            received += piece
            if b'"pty"' in received:
                break
    selector = {"process": {"tag": "replayed"}}

    replayed = stream(
        runtime,
        "process.Process/Connect",
        selector,
        **{"Sbx-Replay-From": "2", "Connect-Timeout-Ms": "400"},
    )
    future_only = stream(
        runtime, "process.Process/Connect", selector, **{"Connect-Timeout-Ms": "300"}
    )

    data = [m["event"] for m in replayed if "data" in m.get("event", {})]
    assert data[0]["sequence"] == "2"
    assert output_of(replayed, "pty") == b"cdef"
    assert output_of(future_only, "pty") == b""
    unary(runtime, "process.Process/SendSignal", {**selector, "signal": 9})


def test_a_killed_sandbox_resets_its_streams(api: httpx.Client, engine: EngineProcess) -> None:
    sandbox = create_sandbox(api)
    lines = "".join(f"{name}: {value}\r\n" for name, value in sandbox.headers().items())
    body = envelope(start_request("sleep 60"))
    head = (
        f"POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\n{lines}"
        f"Content-Type: {STREAM}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as sock:
        sock.sendall(head + body)
        received = b""
        while b'"start"' not in received:
            received += sock.recv(65536)

        api.delete(f"/sandboxes/{sandbox.id}")

        with pytest.raises(ConnectionResetError):
            drain(sock)
    with sandbox.client() as client:
        assert client.get("/health").status_code == 502


def test_a_client_that_never_reads_costs_no_memory(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in shared.headers().items())
    body = envelope(start_request("head -c 2G /dev/zero", tag="unread"))
    head = (
        f"POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\n{lines}"
        f"Content-Type: {STREAM}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    before = engine.resident_mb()
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as sock:
        sock.sendall(head + body)
        until_steady(lambda: unread(sock))  # the client's buffer is full
        until_steady(lambda: int(engine.resident_mb()))
        assert engine.resident_mb() - before < 64
        assert runtime.get("/health").status_code == 204
    unary(runtime, "process.Process/SendSignal", {"process": {"tag": "unread"}, "signal": 9})


def test_a_stream_request_that_stops_half_way_is_forgotten(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in shared.headers().items())
    runtime.get("/health")
    before = engine.descriptors()
    for cut in (b"", struct.pack(">BI", 0, 1000) + b"{"):
        head = (
            f"POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\n{lines}"
            f"Content-Type: {STREAM}\r\nContent-Length: 1005\r\n\r\n"
        ).encode()
        with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as sock:
            sock.sendall(head + cut)
            until(lambda: engine.descriptors() > before)
        until(lambda: engine.descriptors() <= before, message="the connection is kept")

    assert runtime.get("/health").status_code == 204


def test_watching_a_folder_streams_its_events(runtime: httpx.Client) -> None:
    unary(runtime, "filesystem.Filesystem/MakeDir", {"path": "watched"})
    with runtime.stream(
        "POST",
        "/filesystem.Filesystem/WatchDir",
        content=envelope({"path": "watched", "includeEntry": True}),
        headers={"Content-Type": STREAM},
    ) as answer:
        pieces = answer.iter_raw()
        received = next(pieces)
        assert list(envelopes(received)) == [(0, {"start": {}})]
        runtime.post(
            "/files?path=watched/new",
            content=b"x",
            headers={"Content-Type": "application/octet-stream"},
        )
        events: list[dict[str, object]] = []
        pending = b""
        while len(events) < 3:
            pending += next(pieces)
            while len(pending) >= 5 and len(pending) >= 5 + int.from_bytes(pending[1:5], "big"):
                size = 5 + int.from_bytes(pending[1:5], "big")
                events.append(json.loads(pending[5:size])["filesystem"])
                pending = pending[size:]

    assert [each["type"] for each in events] == [
        "EVENT_TYPE_CREATE",
        "EVENT_TYPE_CHMOD",
        "EVENT_TYPE_WRITE",
    ]
    assert {each["name"] for each in events} == {"new"}
    assert "entry" in events[0]


def test_watchers_buffer_until_they_are_asked(runtime: httpx.Client) -> None:
    unary(runtime, "filesystem.Filesystem/MakeDir", {"path": "polled"})
    made = unary(runtime, "filesystem.Filesystem/CreateWatcher", {"path": "polled"})
    watcher = {"watcherId": made.json()["watcherId"]}
    unary(runtime, "filesystem.Filesystem/MakeDir", {"path": "polled/sub"})

    def told() -> list[dict[str, str]]:
        answer = unary(runtime, "filesystem.Filesystem/GetWatcherEvents", watcher)
        return answer.json().get("events", [])

    events = until(told)
    assert events[0] == {"name": "sub", "type": "EVENT_TYPE_CREATE"}
    assert unary(runtime, "filesystem.Filesystem/RemoveWatcher", watcher).json() == {}
    gone = unary(runtime, "filesystem.Filesystem/RemoveWatcher", watcher)
    check_error(gone, 404, code="not_found")
    missing = unary(runtime, "filesystem.Filesystem/CreateWatcher", {"path": "/none"})
    check_error(missing, 404, code="not_found")
    file = unary(runtime, "filesystem.Filesystem/CreateWatcher", {"path": "/etc/passwd"})
    check_error(file, 400, code="invalid_argument")


def test_streams_are_answered_alike_with_and_without_a_handler(runtime: httpx.Client) -> None:
    """A coding header leaves the call to tornado's handler, though it names no compression."""
    for message in ({"process": {"pid": 1}}, {"process": {}}, {"process": 1}):
        answers = [
            runtime.post(
                "/process.Process/Connect",
                content=envelope(message),
                headers={"Content-Type": STREAM, **coding},
            )
            for coding in ({}, {"Connect-Content-Encoding": "identity"})
        ]

        direct, handled = (dict(answer.headers) for answer in answers)
        assert direct.pop("date")
        assert handled.pop("date")
        # The handler knows the size of an error that comes before all else.
        assert handled.pop("content-length", None) or "transfer-encoding" in handled
        assert direct.pop("transfer-encoding") == "chunked"
        handled.pop("transfer-encoding", None)
        assert direct == handled
        assert answers[0].content == answers[1].content
