"""Listing, uploading and downloading files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import web_servers
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import ratio_to
from tests.benchmarks.harness import RawConnection, run_script, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

FILES: Final = 20_000
SIZE: Final = 1 << 30
_CHUNK: Final = bytes(1 << 20)


@contextlib.contextmanager
def _listings(engine: EngineClient) -> Iterator[Contestants]:
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        for index in range(FILES):
            Path(folder, f"file-{index:05}").touch()
        make_files(engine, sandbox, FILES)
        yield {
            OURS: lambda: timed(lambda: list_files(engine, sandbox, FILES)),
            "scandir and stat": lambda: timed(lambda: [e.stat() for e in os.scandir(folder)]),
        }


def make_files(engine: EngineClient, sandbox: dict[str, str], count: int) -> None:
    """Make empty files in the directory ``many`` of a sandbox."""
    names = f"seq -f file-%06g 0 {count - 1}"
    run_script(engine, sandbox, f"mkdir -p many && cd many && {names} | xargs touch")


def list_files(engine: EngineClient, sandbox: dict[str, str], count: int) -> None:
    """List the files and count them; the time includes no decoding of the answer."""
    answer = engine.unary(sandbox, "filesystem.Filesystem/ListDir", {"path": "many"})
    if (found := answer.count(b'"permissions":')) != count:
        raise RuntimeError(f"{found} entries")


@contextlib.contextmanager
def _transfers(engine: EngineClient, *, up: bool) -> Iterator[Contestants]:
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(engine.sandbox())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {"tornado": (stack.enter_context(web_servers.tornado(folder)), "/put")}
        if web_servers.has_nginx():
            other = stack.enter_context(tempfile.TemporaryDirectory())
            servers["nginx"] = (stack.enter_context(web_servers.nginx(other)), "/upload")
        contestants = {OURS: lambda: timed(lambda: upload_file(engine, sandbox, SIZE))}
        for name, (url, path) in servers.items():
            contestants[name] = _timed_upload(url, path)
        if up:
            yield contestants
            return
        for prepare in contestants.values():
            prepare()
        contestants = {OURS: lambda: timed(lambda: download_file(engine, sandbox, SIZE))}
        for name, (url, _) in servers.items():
            contestants[name] = _timed_download(url)
        yield contestants


def _timed_upload(url: str, path: str) -> Callable[[], float]:
    return lambda: timed(lambda: _upload(url, path, {}, SIZE, "PUT"))


def _timed_download(url: str) -> Callable[[], float]:
    return lambda: timed(lambda: _download(url, "/upload", {}, SIZE))


def upload_file(engine: EngineClient, sandbox: dict[str, str], size: int) -> None:
    """Write ``size`` bytes to the file ``big`` of a sandbox."""
    headers = {**engine.headers(sandbox), "content-type": "application/octet-stream"}
    _upload(engine.url, "/files?path=big", headers, size)


def download_file(engine: EngineClient, sandbox: dict[str, str], size: int) -> None:
    """Read the file ``big`` of a sandbox, which has ``size`` bytes."""
    headers = {**engine.headers(sandbox), "accept-encoding": "identity"}
    _download(engine.url, "/files?path=big", headers, size)


def _download(url: str, path: str, headers: dict[str, str], size: int) -> None:
    connection = RawConnection(url)
    connection.send_head("GET", path, headers, 0)
    if (status := connection.read_head()) != 200:
        raise RuntimeError(f"GET {path}: {status}")
    buffer = bytearray(len(_CHUNK))
    read = connection.buffered
    while read < size and (received := connection.socket.recv_into(buffer)):
        read += received
    connection.close()
    if read != size:
        raise RuntimeError(f"{read} bytes")


def _upload(url: str, path: str, headers: dict[str, str], size: int, method: str = "POST") -> None:
    connection = RawConnection(url)
    connection.send_head(method, path, headers, size)
    left = memoryview(_CHUNK)
    for start in range(0, size, len(_CHUNK)):
        connection.socket.sendall(left[: size - start])
    if not 200 <= (status := connection.read_head()) < 300:
        raise RuntimeError(f"{method} {path}: {status}")
    connection.close()


ROWS: Final = (
    Row(
        f"List {FILES:,} files",
        10,
        _listings,
        (ratio_to("scandir and stat", 2.0),),
        "each entry is written as JSON with owner, group, permissions and time, and read by a"
        " process in the sandbox",
    ),
    Row(
        "Upload 1 GiB",
        3,
        lambda engine: _transfers(engine, up=True),
        (ratio_to("tornado", 1.0), ratio_to("nginx", 1.0)),
        "nginx moves bytes in C",
        warm_up=1,
    ),
    Row(
        "Download 1 GiB",
        5,
        lambda engine: _transfers(engine, up=False),
        (ratio_to("tornado", 1.0), ratio_to("nginx", 1.0)),
        "nginx and ours hand the file to the kernel with sendfile; the client's reading is the"
        " larger part of both",
        warm_up=2,
    ),
)
