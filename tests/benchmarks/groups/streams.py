"""The output of a program, in both codecs, beside a bare pipe."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Final

from sbx_jupyter.protocol import binary, connect, runtime
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.goals import ratio_to
from tests.benchmarks.harness import RawConnection, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

SIZE: Final = 1 << 30
PIPE: Final = "a pipe"
_MOST: Final = 1.02
"""Of the output's size: what envelopes and chunks may add."""
_BASE64: Final = 4 / 3


@contextlib.contextmanager
def _outputs(engine: EngineClient, *, is_binary: bool) -> Iterator[Contestants]:
    with engine.sandbox() as sandbox:
        yield {
            OURS: lambda: timed(lambda: read_output(engine, sandbox, SIZE, is_binary=is_binary)),
            PIPE: lambda: timed(_read_pipe),
        }


def _command(size: int) -> list[str]:
    return ["head", "-c", str(size), "/dev/zero"]


def _read_pipe() -> None:
    command = _command(SIZE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(65536):
            pass


def read_output(
    engine: EngineClient, sandbox: dict[str, str], size: int, *, is_binary: bool
) -> None:
    """Let a program write ``size`` bytes, read the stream and check its size."""
    program, *arguments = _command(size)
    if is_binary:
        config = runtime.ProcessConfig(cmd=program, args=arguments)
        content = binary.encode(runtime.StartRequest(process=config, stdin=False))
        kind = connect.BINARY_STREAM_CONTENT_TYPE
    else:
        message = {"process": {"cmd": program, "args": arguments}, "stdin": False}
        content = json.dumps(message).encode()
        kind = connect.STREAM_CONTENT_TYPE
    received = _receive(engine, sandbox, connect.encode_envelope(content), kind)
    least = size if is_binary else size * _BASE64
    if not least < received < least * _MOST + 10_000:
        raise RuntimeError(f"{received} bytes of envelopes")


def _receive(engine: EngineClient, sandbox: dict[str, str], content: bytes, kind: str) -> int:
    """Start the program; returns how many bytes the answer has, head and chunks included."""
    headers = {**engine.headers(sandbox), "content-type": kind}
    with contextlib.closing(RawConnection(engine.url)) as connection:
        connection.send_head("POST", "/process.Process/Start", headers, len(content), content)
        buffer = bytearray(1 << 20)
        size, end = 0, b""
        while end != b"0\r\n\r\n":
            received = connection.socket.recv_into(buffer)
            if not received:
                raise RuntimeError("the stream was cut off")
            size += received
            end = (end + buffer[max(0, received - 5) : received])[-5:]
    return size


ROWS: Final = (
    Row(
        "Read 1 GiB of a program's output, JSON",
        4,
        lambda engine: _outputs(engine, is_binary=False),
        (ratio_to(PIPE, 2.0),),
        "base64 makes four bytes of three and is read again by the client; the bytes go through"
        " the engine, where a pipe has one reader",
        warm_up=1,
    ),
    Row(
        "Read 1 GiB of a program's output, binary",
        4,
        lambda engine: _outputs(engine, is_binary=True),
        (ratio_to(PIPE, round(1 / 0.9, 2)),),
        "the bytes cross a pipe and a socket, where the peer's cross a pipe",
        warm_up=1,
    ),
)
