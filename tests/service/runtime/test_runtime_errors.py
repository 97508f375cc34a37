"""The rows of interface 3.3 to 3.5 and 4.6 that say how something is refused, over HTTP."""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.protocol import connect
from tests.checks import check_error, check_file_error
from tests.service.rpc import (
    STREAM,
    envelope,
    envelopes,
    output_of,
    run,
    start_request,
    stream,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

START = "process.Process/Start"
CONNECT = "process.Process/Connect"
WATCH = "filesystem.Filesystem/WatchDir"

TABLE = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}


def test_codes_have_the_statuses_of_the_table() -> None:
    assert connect.HTTP_STATUS == TABLE


def refused(answer: httpx.Response, code: str) -> str:
    """The message of a unary answer that must be a refusal with that code."""
    check_error(answer, TABLE[code], code=code)
    return answer.json()["message"]


def ended_with(messages: list[Any], code: str) -> str:
    error = messages[-1]["error"]
    assert error["code"] == code, error
    return error["message"]


def end_of(messages: list[Any]) -> dict[str, Any]:
    return next(m["event"]["end"] for m in messages if "end" in m.get("event", {}))


@contextlib.contextmanager
def running(client: httpx.Client, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A process that lives as long as the block, as a selector."""
    with client.stream(
        "POST", f"/{START}", content=envelope(request), headers={"Content-Type": STREAM}
    ) as answer:
        start = next(envelopes(next(answer.iter_raw())))[1]["event"]["start"]
        selector = {"process": {"pid": start["pid"]}}
        try:
            yield selector
        finally:
            unary(client, "process.Process/SendSignal", {**selector, "signal": 9})


TERMINAL = {
    "process": {"cmd": "/bin/bash", "args": ["-c", "sleep 300"]},
    "pty": {"size": {"cols": 80, "rows": 24}},
}
TEXT = base64.b64encode(b"text").decode()


# filesystem.Filesystem


@pytest.fixture
def folder(runtime: httpx.Client) -> Iterator[str]:
    run(
        runtime,
        "rm -rf /tmp/rows; mkdir -p /tmp/rows/full/of/things && cd /tmp/rows && echo > file && "
        "ln -s loop loop && ln -s full link && mkdir empty",
    )
    yield "/tmp/rows"
    run(runtime, "rm -rf /tmp/rows")


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        ("Stat", {"path": "{}/none"}, "not_found"),
        ("ListDir", {"path": "{}/loop"}, "failed_precondition"),
        ("ListDir", {"path": "{}/file"}, "invalid_argument"),
        ("ListDir", {"path": "{}/file/below"}, "not_found"),
        ("MakeDir", {"path": "{}/full"}, "already_exists"),
        ("MakeDir", {"path": "{}/link"}, "already_exists"),
        ("MakeDir", {"path": "{}/file"}, "invalid_argument"),
        ("MakeDir", {"path": "{}/file/below"}, "internal"),
        ("Move", {"source": "{}/none", "destination": "{}/x"}, "not_found"),
        ("Move", {"source": "{}/empty", "destination": "{}/full"}, "internal"),
        ("Move", {"source": "{}/file", "destination": "/dev/shm/other"}, "internal"),
        ("Remove", {"path": "/proc/1/status"}, "internal"),
        ("CreateWatcher", {"path": "{}/none"}, "not_found"),
        ("CreateWatcher", {"path": "{}/file"}, "invalid_argument"),
        ("GetWatcherEvents", {"watcherId": "none"}, "not_found"),
        ("RemoveWatcher", {"watcherId": "none"}, "not_found"),
    ],
)
def test_a_call_for_files_is_refused(
    runtime: httpx.Client, folder: str, method: str, message: dict[str, str], code: str
) -> None:
    message = {name: text.replace("{}", folder) for name, text in message.items()}

    refused(unary(runtime, f"filesystem.Filesystem/{method}", message), code)


def test_refusals_say_what_is_wrong_with_which_path(runtime: httpx.Client, folder: str) -> None:
    missing = unary(runtime, "filesystem.Filesystem/Stat", {"path": f"{folder}/none"})
    file = unary(runtime, "filesystem.Filesystem/ListDir", {"path": f"{folder}/file"})
    other = unary(runtime, "filesystem.Filesystem/Stat", {"path": "~other"})

    assert refused(missing, "not_found").startswith("file not found: ")
    assert refused(file, "invalid_argument") == f"path is not a directory: {folder}/file"
    assert refused(other, "invalid_argument") == "cannot expand user-specific home dir"


def test_what_is_missing_can_be_removed_and_files_are_replaced(
    runtime: httpx.Client, folder: str
) -> None:
    run(runtime, f"echo new > {folder}/new")
    moved = {"source": f"{folder}/new", "destination": f"{folder}/file"}

    assert unary(runtime, "filesystem.Filesystem/Remove", {"path": f"{folder}/none"}).json() == {}
    entry = unary(runtime, "filesystem.Filesystem/Move", moved).json()["entry"]
    assert entry["path"] == f"{folder}/file"
    assert run(runtime, f"cat {folder}/file") == (0, b"new\n")


def test_no_depth_is_a_depth_of_one_and_names_keep_the_path_as_asked(
    runtime: httpx.Client, folder: str
) -> None:
    for depth in ({}, {"depth": 0}, {"depth": 1}):
        request = {"path": f"{folder}/link", **depth}
        entries = unary(runtime, "filesystem.Filesystem/ListDir", request).json()["entries"]
        assert [entry["path"] for entry in entries] == [f"{folder}/link/of"]


def test_times_have_a_zone(runtime: httpx.Client) -> None:
    answer = unary(runtime, "filesystem.Filesystem/Stat", {"path": "/etc"})

    assert answer.json()["entry"]["modifiedTime"].endswith("Z")


@pytest.mark.parametrize(
    ("path", "code"),
    [("{}/none", "not_found"), ("{}/file", "invalid_argument"), ("~x/y", "invalid_argument")],
)
def test_a_watch_is_refused_at_the_end_of_its_stream(
    runtime: httpx.Client, folder: str, path: str, code: str
) -> None:
    messages = stream(runtime, WATCH, {"path": path.replace("{}", folder)})

    assert len(messages) == 1
    ended_with(messages, code)


def test_a_watch_ends_with_its_time(runtime: httpx.Client, folder: str) -> None:
    messages = stream(runtime, WATCH, {"path": folder}, **{"Connect-Timeout-Ms": "300"})

    assert messages[0] == {"start": {}}
    ended_with(messages, "deadline_exceeded")


def test_a_watch_pings_into_the_silence(runtime: httpx.Client, folder: str) -> None:
    headers = {"Connect-Timeout-Ms": "1600", "Keepalive-Ping-Interval": "1"}

    assert {"keepalive": {}} in stream(runtime, WATCH, {"path": folder}, **headers)


# process.Process


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("exit 0", {"exited": True, "status": "exit status 0"}),
        (
            "exit 7",
            {"exitCode": 7, "exited": True, "status": "exit status 7", "error": "exit status 7"},
        ),
        (
            "kill -KILL $$",
            {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"},
        ),
    ],
)
def test_each_end_has_its_words(runtime: httpx.Client, script: str, end: dict[str, Any]) -> None:
    assert end_of(stream(runtime, START, start_request(script))) == end


@pytest.mark.parametrize(
    ("cmd", "status"), [("no-such-program", 127), ("/etc/passwd", 126), ("/etc", 126), ("", 127)]
)
def test_what_cannot_be_run_is_no_error_of_the_call(
    runtime: httpx.Client, cmd: str, status: int
) -> None:
    messages = stream(runtime, START, {"process": {"cmd": cmd}, "stdin": False})

    assert end_of(messages)["exitCode"] == status
    assert output_of(messages, "stderr")
    assert messages[-1] == {}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cwd": "/none"}, "cwd '/none' does not exist"),
        ({"cwd": "~other"}, "cannot expand user-specific home dir"),
        ({"cwd": "/etc/passwd"}, None),
        ({"args": ["a\0b"]}, None),
        ({"envs": {"A=B": "x"}}, None),
        ({"envs": {"": "x"}}, None),
    ],
)
def test_what_cannot_be_started_is_an_invalid_argument(
    runtime: httpx.Client, fields: dict[str, Any], text: str | None
) -> None:
    messages = stream(runtime, START, {"process": {"cmd": "true", **fields}})

    assert len(messages) == 1
    message = ended_with(messages, "invalid_argument")
    assert text is None or message == text


def test_a_terminal_takes_no_stdin_and_cannot_be_closed(runtime: httpx.Client) -> None:
    with running(runtime, TERMINAL) as selector:
        stdin = {**selector, "input": {"stdin": TEXT}}
        refused(unary(runtime, "process.Process/SendInput", stdin), "internal")
        refused(unary(runtime, "process.Process/CloseStdin", selector), "unknown")
        pty = {**selector, "input": {"pty": TEXT}}
        assert unary(runtime, "process.Process/SendInput", pty).json() == {}
        assert unary(runtime, "process.Process/Update", selector).json() == {}


def test_a_pipe_takes_no_terminal_input_and_has_no_size(runtime: httpx.Client) -> None:
    with running(runtime, start_request("sleep 300", stdin=True)) as selector:
        pty = {**selector, "input": {"pty": TEXT}}
        refused(unary(runtime, "process.Process/SendInput", pty), "internal")
        size = {**selector, "pty": {"size": {"cols": 1, "rows": 1}}}
        refused(unary(runtime, "process.Process/Update", size), "internal")
        assert unary(runtime, "process.Process/Update", selector).json() == {}
        refused(unary(runtime, "process.Process/SendInput", selector), "unimplemented")


@pytest.mark.parametrize("is_closed", [True, False])
def test_closed_or_declined_input_takes_nothing(runtime: httpx.Client, is_closed: bool) -> None:
    with running(runtime, start_request("sleep 300", stdin=is_closed)) as selector:
        if is_closed:
            unary(runtime, "process.Process/CloseStdin", selector)
        stdin = {**selector, "input": {"stdin": TEXT}}

        refused(unary(runtime, "process.Process/SendInput", stdin), "internal")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"pid": 99999}, "process with pid 99999 not found"),
        ({"tag": "nobody"}, "process with tag nobody not found"),
    ],
)
def test_a_process_that_nobody_knows_is_named(
    runtime: httpx.Client, selector: dict[str, Any], text: str
) -> None:
    request = {"process": selector}
    for method in ("Update", "SendInput", "SendSignal", "CloseStdin"):
        answer = unary(runtime, f"process.Process/{method}", {**request, "signal": 9})
        assert refused(answer, "not_found") == text
    assert ended_with(stream(runtime, CONNECT, request), "not_found") == text
    given = stream(runtime, "process.Process/StreamInput", {"start": request})
    assert ended_with(given, "not_found") == text


def test_an_ended_process_gives_start_and_end_to_late_comers(runtime: httpx.Client) -> None:
    messages = stream(runtime, START, start_request("echo over; exit 3"))
    pid = messages[0]["event"]["start"]["pid"]

    late = stream(runtime, CONNECT, {"process": {"pid": pid}})

    assert late == [messages[0], {"event": {"end": end_of(messages)}}, {}]
    signal = {"process": {"pid": pid}, "signal": 9}
    refused(unary(runtime, "process.Process/SendSignal", signal), "not_found")


def test_methods_about_processes_ask_for_no_user(runtime: httpx.Client) -> None:
    stranger = {"Authorization": "Basic " + base64.b64encode(b"nobody-here:").decode()}
    with running(runtime, start_request("sleep 300", stdin=True)) as selector:
        stdin = {**selector, "input": {"stdin": TEXT}}
        for method, request in (
            ("List", {}),
            ("SendInput", stdin),
            ("CloseStdin", selector),
            ("Update", selector),
        ):
            answer = unary(runtime, f"process.Process/{method}", request, **stranger)
            assert answer.status_code == 200, method
        signal = {**selector, "signal": "SIGNAL_SIGKILL"}
        assert unary(runtime, "process.Process/SendSignal", signal, **stranger).status_code == 200


# /files/compose


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"source_paths": ["none"], "destination": "x"}, 404, "source file not found: none"),
        ({"source_paths": ["/etc"], "destination": "x"}, 400, None),
        ({"source_paths": ["/etc/passwd"], "destination": "/etc/passwd"}, 400, None),
        ({"source_paths": ["/etc/passwd"], "destination": "~other/x"}, 400, None),
        ({"source_paths": ["/etc/passwd"], "destination": "x", "username": "who"}, 401, None),
    ],
)
def test_composing_is_refused(
    runtime: httpx.Client, body: dict[str, Any], status: int, text: str | None
) -> None:
    answer = runtime.post("/files/compose", json=body)

    check_file_error(answer, status)
    assert text is None or answer.json()["message"] == text


# What needs the token


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/metrics"),
        ("GET", "/envs"),
        ("POST", "/files/compose"),
        ("POST", "/process.Process/List"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("GET", "/nothing/here"),
    ],
)
def test_without_the_right_token_it_is_401(runtime: httpx.Client, verb: str, path: str) -> None:
    text = "unauthorized access, please provide a valid access token or method signing if supported"

    answer = runtime.request(verb, path, headers={"X-Access-Token": "wrong"}, json={})

    assert (answer.status_code, answer.json()) == (401, {"code": 401, "message": text})
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_health_needs_no_token_and_an_unknown_route_is_404_with_one(runtime: httpx.Client) -> None:
    assert runtime.get("/health", headers={"X-Access-Token": "wrong"}).status_code == 204
    check_file_error(runtime.get("/nothing/here"), 404)
