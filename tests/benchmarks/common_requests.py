"""Common requests, each on a kept-alive connection where clients keep theirs."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.harness import RawConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

    Sandbox = dict[str, Any]

_FILES: Final = 50
_OUTPUT: Final = 32 << 10
"""Bytes that a pipe takes at once, so that their number of pieces is always the same."""
_FILE: Final = 32 << 10
"""Bytes that arrive in one piece."""


def common_requests(client: EngineClient) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each kind of request; what is made before the first of a kind is not part of it.

    All are for the sandbox that the first request made first.
    """
    made: list[Sandbox] = []
    yield "create", lambda: made.append(client.create())
    sandbox = made[0]
    yield "exec", lambda: _exec(client, sandbox)
    for number in range(_FILES):
        _files(client, sandbox, "MakeDir", f"many/{number}")
    yield f"list {_FILES} files", lambda: _files(client, sandbox, "ListDir", "many")
    yield "stat", lambda: _files(client, sandbox, "Stat", "many")
    with _input(client, sandbox, "stdin") as send:
        yield "echo", lambda: send(b"x")
        yield f"output {_OUTPUT >> 10} KiB", lambda: send(bytes(_OUTPUT))
    with _input(client, sandbox, "pty") as send:
        yield "terminal echo", lambda: send(b"x")
    with _transfer(client, sandbox) as transfer:
        yield f"upload {_FILE >> 10} KiB", lambda: transfer("POST", bytes(_FILE))
        yield f"download {_FILE >> 10} KiB", lambda: transfer("GET", b"")
    yield "nothing", lambda: client.platform("GET", "/health")


def _exec(client: EngineClient, sandbox: Sandbox) -> None:
    """Run a program to its end: a stream that is left before has more or less to do."""
    message = {"process": {"cmd": "/bin/echo", "args": ["hi"]}, "stdin": False}
    with client.stream(sandbox, "process.Process/Start", message) as events:
        payloads = [payload for _, payload in events]
    assert any(b'"stdout"' in payload for payload in payloads), payloads


def _files(client: EngineClient, sandbox: Sandbox, method: str, path: str) -> None:
    client.unary(sandbox, f"filesystem.Filesystem/{method}", {"path": path})


@contextlib.contextmanager
def _input(
    client: EngineClient, sandbox: Sandbox, kind: str
) -> Iterator[Callable[[bytes], object]]:
    """Start ``cat``; yields a function that sends it bytes and waits until they are back.

    ``kind`` is ``stdin``, for pipes, or ``pty``.
    """
    message: dict[str, Any] = {"process": {"cmd": "/bin/cat"}, "stdin": True}
    if kind == "pty":
        message["pty"] = {"size": {"cols": 80, "rows": 24}}
    answered_as = "stdout" if kind == "stdin" else "pty"
    with client.stream(sandbox, "process.Process/Start", message) as events:
        pid = json.loads(next(events)[1])["event"]["start"]["pid"]

        def send(data: bytes) -> None:
            content = {kind: base64.b64encode(data).decode()}
            request = {"process": {"pid": pid}, "input": content}
            client.unary(sandbox, "process.Process/SendInput", request)
            left = len(data)
            while left > 0:
                event = json.loads(next(events)[1])["event"]
                left -= len(base64.b64decode(event.get("data", {}).get(answered_as, "")))

        yield send


@contextlib.contextmanager
def _transfer(client: EngineClient, sandbox: Sandbox) -> Iterator[Callable[[str, bytes], object]]:
    """Yields a function that writes or reads a file of a sandbox over one connection."""
    headers = client.headers(sandbox) | {
        "content-type": "application/octet-stream",
        "accept-encoding": "identity",
    }
    with contextlib.closing(RawConnection(client.url)) as connection:

        def transfer(method: str, body: bytes) -> None:
            status, answer = connection.request(method, "/files?path=small", headers, body)
            assert status == 200, (status, answer[:200])
            assert method == "POST" or len(answer) == _FILE

        yield transfer
