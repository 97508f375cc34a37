"""No request makes an engine fail, hang or change a file where its answer is an error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sbx_jupyter.protocol import requests
from sbx_jupyter.service.runtime.connect import ServerStream, Unary
from sbx_jupyter.service.runtime.routes import METHODS
from tests.engine_process import EngineProcess

from .wire import GRPC_WEB, JSON, PROTO, STREAM, Wire, envelope, envelopes

EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
)
FOLDER = "/tmp/any"
PATHS = [
    *(f"{FOLDER}/{name}" for name in ("file", "file/", "file/x", "folder", "none", "link", "loop")),
    *("", "/", "~", "~x", "..", "a\0b", "x" * 300, "/" + "x" * 5000, "/proc/1/mem", "é\udcff"),
]
NUMBERS = [0, 1, -1, 1.5, 1e300, 2**31, 2**32, 2**64, 10**400, "7", "x"]
FAILED = "internal error"
"""The message of the answer when the engine itself has a bug."""

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.sampled_from(PATHS),
    st.text(max_size=10),
    st.lists(st.none() | st.sampled_from(PATHS), max_size=2),
    st.dictionaries(st.text(max_size=3), st.sampled_from(PATHS), max_size=2),
)
paths = st.sampled_from(PATHS)
selectors = st.fixed_dictionaries(
    {}, optional={"pid": st.sampled_from(NUMBERS), "tag": st.sampled_from(["", "x"])}
)
commands = st.fixed_dictionaries(
    {"cmd": st.sampled_from(["true", "", "/none", "/etc", "a\0b"])},
    optional={
        "args": st.lists(paths, max_size=2),
        "envs": st.dictionaries(st.text(max_size=3), paths, max_size=2),
        "cwd": paths,
    },
)
sizes = st.fixed_dictionaries(
    {}, optional={"cols": st.sampled_from(NUMBERS), "rows": st.sampled_from(NUMBERS)}
)
fields = {
    "path": paths,
    "source": paths,
    "destination": paths,
    "depth": st.sampled_from(NUMBERS),
    "watcherId": st.text(max_size=5),
    "recursive": st.booleans(),
    "includeEntry": st.booleans(),
    "process": selectors | commands | odd,
    "pty": st.none() | st.fixed_dictionaries({}, optional={"size": sizes}) | odd,
    "tag": odd,
    "stdin": st.just(False) | odd,
    "signal": st.sampled_from([0, 9, 15, "SIGNAL_SIGTERM", "9", None, []]),
    "input": st.fixed_dictionaries({}, optional={"stdin": odd, "pty": odd}) | odd,
    "start": st.fixed_dictionaries({}, optional={"process": selectors}) | odd,
    "data": odd,
    "keepalive": odd,
}
messages = st.fixed_dictionaries({}, optional=fields).map(lambda message: json.dumps(message))
bodies = st.one_of(messages.map(str.encode), st.binary(max_size=60))


@pytest.fixture(scope="module", autouse=True)
def folder(wire: Wire) -> None:
    """Files that may be changed by a request that succeeds only."""
    wire.run(
        f"mkdir -p {FOLDER}/folder && cd {FOLDER} && echo content > file && echo x > folder/x && "
        "ln -s file link && ln -s loop loop"
    )


def state(wire: Wire) -> str:
    """Everything about the files in the folder that a request could change."""
    return wire.run(
        f"cd {FOLDER} && find . -printf '%p %y %m %u %s %l\\n' | sort; cat {FOLDER}/file"
    )


@pytest.fixture(scope="module", autouse=True)
def log_without_bugs(shared_engine: EngineProcess) -> Any:
    """The log must not have more tracebacks after the tests than before."""
    before = Path(shared_engine.log).read_text().count("Traceback")
    yield
    assert Path(shared_engine.log).read_text().count("Traceback") == before


def check_answer(wire: Wire, answer: httpx.Response, before: str) -> None:
    text = answer.content.decode("utf-8", "replace")
    assert FAILED not in text
    assert "Traceback" not in text
    if has_failed(answer):
        assert state(wire) == before


def has_failed(answer: httpx.Response) -> bool:
    if answer.status_code != 200:
        return True
    if answer.headers["content-type"] in (STREAM, GRPC_WEB):
        flags, end = envelopes(answer.content)[-1]
        return "grpc-status: 0" not in end if flags & 0x80 else "error" in end
    return False


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_no_message_makes_a_call_fail(wire: Wire, method: str) -> None:
    is_unary = isinstance(METHODS[method], Unary)
    kinds = [GRPC_WEB, JSON, PROTO] if is_unary else [GRPC_WEB, STREAM, "application/connect+proto"]
    # A watch or a process that lives on ends with its time limit.
    limit = {"Connect-Timeout-Ms": "300", "Grpc-Timeout": "300m"}

    @given(
        body=bodies,
        kind=st.sampled_from(kinds),
        flags=st.sampled_from([0, 0, 0, 1, 2, 128]),
        coding=st.sampled_from(["", "", "gzip", "br"]),
    )
    @EXAMPLES
    def check(body: bytes, kind: str, flags: int, coding: str) -> None:
        before = state(wire)
        packed = gzip.compress(body) if coding == "gzip" else body
        content = packed if kind in (JSON, PROTO) else envelope(packed, flags)
        names = ("Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding")
        name = names[0] if kind in (JSON, PROTO) else names[2 if kind == GRPC_WEB else 1]
        headers = {"Content-Type": kind, **limit, **({name: coding} if coding else {})}

        check_answer(wire, wire.client.post(f"/{method}", content=content, headers=headers), before)

    check()


@pytest.mark.parametrize(
    "method", [name for name, it in METHODS.items() if isinstance(it, ServerStream)]
)
def test_what_is_no_envelope_makes_no_stream_fail(wire: Wire, method: str) -> None:
    @given(body=st.binary(max_size=30))
    @EXAMPLES
    def check(body: bytes) -> None:
        before = state(wire)
        answer = wire.client.post(
            f"/{method}",
            content=body,
            headers={"Content-Type": STREAM, "Connect-Timeout-Ms": "300"},
        )
        check_answer(wire, answer, before)

    check()


@given(
    verb=st.sampled_from(["GET", "HEAD", "POST", "PUT", "BREW"]),
    route=st.sampled_from(["/files", "/files/compose", "/metrics", "/envs", "/health", "/none"]),
    query=st.dictionaries(
        st.sampled_from(["path", "username", "signature", "signature_expiration", "x"]),
        paths.map(lambda path: path.encode("utf-8", "replace").decode()),
        max_size=3,
    ),
    headers=st.dictionaries(
        st.sampled_from(
            [
                "Range",
                "If-Match",
                "If-Range",
                "If-Modified-Since",
                "Accept-Encoding",
                "X-Metadata-A",
            ]
        ),
        st.sampled_from(["", "*", "bytes=0-", "bytes=,", "bytes=9-1", "gzip;q=x", '"', "a" * 5000]),
        max_size=3,
    ),
    content_type=st.sampled_from(
        ["", JSON, "application/octet-stream", "multipart/form-data; boundary=B", "multipart/mixed"]
    ),
    coding=st.sampled_from(["", "gzip", "br"]),
    body=st.binary(max_size=60)
    | st.sampled_from([b"--B\r\n", b"--B--", b'{"source_paths":["/tmp/x"],"destination":""}']),
)
@settings(EXAMPLES, max_examples=60)
def test_no_request_makes_a_route_fail(
    wire: Wire,
    verb: str,
    route: str,
    query: dict[str, str],
    headers: dict[str, str],
    content_type: str,
    coding: str,
    body: bytes,
) -> None:
    before = state(wire)
    given_headers = {"Content-Type": content_type, "Content-Encoding": coding, **headers}
    wanted = {name: value for name, value in given_headers.items() if value}

    answer = wire.client.request(verb, route, params=query, headers=wanted, content=body)

    assert answer.status_code != 500 or "multipart" in answer.text, answer.text
    check_answer(wire, answer, before)


@given(st.binary(max_size=200) | messages.map(str.encode))
@settings(EXAMPLES, max_examples=100)
def test_every_body_is_a_request_or_an_invalid_argument(raw: bytes) -> None:
    for method in METHODS.values():
        try:
            requests.decode(method.request, raw)
        except requests.InvalidArgumentError as error:
            assert error.message.startswith("cannot decode message")
