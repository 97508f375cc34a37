"""Creating a sandbox and running programs, beside programs that start ``/bin/true`` apart."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.protocol import connect
from tests.benchmarks import containers, library_peers, web_servers
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import late_ratio_to, more_than, ratio_to
from tests.benchmarks.harness import RawConnection, first_output, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

PAUSE: Final = 0.1
"""Seconds in which the pool of ready sandboxes fills up again, as between two clicks of a user."""

_COMMAND: Final = ["/bin/echo", "hi"]


@contextlib.contextmanager
def _starts(engine: EngineClient, *, to_output: bool) -> Iterator[Contestants]:
    def create() -> float:
        time.sleep(PAUSE)
        started = time.perf_counter()
        sandbox = engine.create()
        if to_output:
            first_output(engine, sandbox)
        taken = time.perf_counter() - started
        engine.kill(sandbox)
        return taken

    if not to_output:
        with containers.starters(("bwrap", "unshare")) as starters:
            yield {OURS: create, **starters}
        return
    with containers.starters() as starters, library_peers.llm_sandbox() as library:
        yield {OURS: create, **starters, **library}


@contextlib.contextmanager
def _executions(engine: EngineClient) -> Iterator[Contestants]:
    """A program in a running sandbox, from the request to the end of the answer."""
    message = {"process": {"cmd": _COMMAND[0], "args": _COMMAND[1:]}, "stdin": False}
    content = connect.encode_envelope(json.dumps(message).encode())
    with engine.sandbox() as sandbox:
        headers = {**engine.headers(sandbox), "content-type": connect.STREAM_CONTENT_TYPE}
        with contextlib.closing(RawConnection(engine.url)) as connection:

            def execute() -> None:
                status, body = connection.request(
                    "POST", "/process.Process/Start", headers, content
                )
                if status != 200 or b'"stdout"' not in body:
                    raise RuntimeError(f"{status} {body[:200]!r}")

            def plain() -> None:
                if subprocess.run(_COMMAND, capture_output=True, check=True).stdout != b"hi\n":
                    raise RuntimeError("no output")

            yield {OURS: lambda: timed(execute), "subprocess": lambda: timed(plain)}


@contextlib.contextmanager
def _requests(engine: EngineClient) -> Iterator[Contestants]:
    with (
        tempfile.TemporaryDirectory() as folder,
        web_servers.tornado(folder) as url,
        contextlib.closing(RawConnection(url)) as theirs,
    ):

        def nothing() -> None:
            if theirs.request("GET", "/health", {})[0] != 204:
                raise RuntimeError("no answer")

        yield {
            OURS: lambda: timed(lambda: engine.platform("GET", "/health")),
            "tornado": lambda: timed(nothing),
        }


ROWS: Final = (
    Row(
        "Create a sandbox",
        50,
        lambda engine: _starts(engine, to_output=False),
        (ratio_to("bwrap", 1.0),),
        "the answer waits until the row is on disk, so that an engine that is killed loses no"
        " sandbox; bwrap keeps no record",
    ),
    Row(
        "Create a sandbox and get a program's output",
        50,
        lambda engine: _starts(engine, to_output=True),
        (ratio_to("bwrap", 1.0), late_ratio_to("bwrap", 3.0)),
        "ours starts a second program after the create, over two HTTP requests: a create, a fork"
        " in the sandbox, a stream of its output",
    ),
    Row(
        "Run a program in a running sandbox",
        300,
        _executions,
        (more_than("subprocess", 0.0005),),
        "a request, a message to the agent in the sandbox, and a stream of events take this time",
    ),
    Row(
        "Answer a request with nothing",
        500,
        _requests,
        (ratio_to("tornado", 1.0),),
        "ours is the same web server and counts, logs and times each request besides",
    ),
)
