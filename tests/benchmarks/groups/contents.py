"""Files of a sandbox beside those of the notebook server, both through one Jupyter server."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.groups import files
from tests.benchmarks.harness import RawConnection, timed
from tests.benchmarks.web_servers import AUTHORIZATION, free_ports, jupyter_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

THEIRS: Final = "Contents API"
PAGE: Final = 1_000
"""Files of a folder that one request of our file browser lists whole."""
WHOLE: Final = 5_000
SMALL: Final = 100_000
"""Bytes of a file."""

_CONTENT: Final = os.urandom(SMALL)
_JSON: Final = {"Content-Type": "application/json"}


class _Server(NamedTuple):
    """A Jupyter server with a sandbox, a folder of its own, and a connection that is kept."""

    engine: EngineClient
    sandbox: dict[str, str]
    folder: Path
    connection: RawConnection

    def ours(self, method: str, route: str, body: bytes = b"", **query: str) -> bytes:
        """Send a request to our extension about the sandbox."""
        path = f"/sbx/api/sandboxes/{self.sandbox['sandboxID']}/{route}?{urlencode(query)}"
        return self.ask(method, path, body)

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request; returns the body of the answer. Raises ``RuntimeError`` for an error."""
        status, answer = self.connection.request(method, path, {**AUTHORIZATION, **_JSON}, body)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:200]!r}")
        return answer


@contextlib.contextmanager
def _serving(engine: EngineClient) -> Iterator[_Server]:
    (port,) = free_ports(1)
    with (
        engine.sandbox() as sandbox,
        tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder,
        jupyter_server(engine, folder, port),
        contextlib.closing(RawConnection(f"http://127.0.0.1:{port}")) as connection,
    ):
        yield _Server(engine, sandbox, Path(folder), connection)


@contextlib.contextmanager
def _listings(engine: EngineClient, count: int) -> Iterator[Contestants]:
    with _serving(engine) as server:
        files.make_files(engine, server.sandbox, count)
        many = server.folder / "many"
        many.mkdir()
        for index in range(count):
            many.joinpath(f"file-{index:06}").touch()
        yield {
            OURS: _counted(lambda: _list_ours(server, count), b'"permissions":', count),
            THEIRS: _counted(
                lambda: server.ask("GET", "/api/contents/many?content=1"), b'"last_modified"', count
            ),
        }


def _list_ours(server: _Server, count: int) -> bytes:
    """A page as the file browser asks for it; a folder of several pages by one call."""
    if count <= PAGE:
        return server.ours("GET", "listing", path="many", limit=str(PAGE))
    message = json.dumps({"path": "many"}).encode()
    return server.ours("POST", "rpc/filesystem.Filesystem/ListDir", message)


def _counted(ask: Callable[[], bytes], part: bytes, count: int) -> Callable[[], float]:
    """Times ``ask``, whose answer must have ``part`` once for each of ``count`` files."""

    def measure() -> float:
        answers: list[bytes] = []
        taken = timed(lambda: answers.append(ask()))
        if (found := answers[0].count(part)) not in (count, count + 1):  # the folder may have one
            raise RuntimeError(f"{found} entries")
        return taken

    return measure


@contextlib.contextmanager
def _downloads(engine: EngineClient) -> Iterator[Contestants]:
    with _serving(engine) as server:
        server.ours("POST", "files", _CONTENT, path="small")
        server.folder.joinpath("small").write_bytes(_CONTENT)

        def ours() -> None:
            _check(server.ours("GET", "files", path="small"))

        def theirs() -> None:
            answer = server.ask("GET", "/api/contents/small?format=base64")
            _check(base64.b64decode(json.loads(answer)["content"]))

        yield {OURS: lambda: timed(ours), THEIRS: lambda: timed(theirs)}


@contextlib.contextmanager
def _uploads(engine: EngineClient) -> Iterator[Contestants]:
    with _serving(engine) as server:

        def ours() -> None:
            server.ours("POST", "files", _CONTENT, path="small")

        def theirs() -> None:
            text = base64.b64encode(_CONTENT).decode()
            model = {"type": "file", "format": "base64", "content": text}
            server.ask("PUT", "/api/contents/small", json.dumps(model).encode())

        yield {OURS: lambda: timed(ours), THEIRS: lambda: timed(theirs)}
        _check(server.ours("GET", "files", path="small"))
        _check(server.folder.joinpath("small").read_bytes())


def _check(content: bytes) -> None:
    if content != _CONTENT:
        raise RuntimeError(f"{len(content)} bytes")


ROWS: Final = (
    Row(f"List {PAGE:,} files in Jupyter", 30, lambda engine: _listings(engine, PAGE)),
    Row(f"List {WHOLE:,} files in Jupyter", 3, lambda engine: _listings(engine, WHOLE), warm_up=1),
    Row("Download 100 kB in Jupyter", 150, _downloads),
    Row("Upload 100 kB in Jupyter", 150, _uploads),
)
