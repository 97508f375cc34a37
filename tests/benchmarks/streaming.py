"""Rate of 1 GiB of a command's output in a Start stream, compared with a bare pipe."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from sbx_jupyter.protocol import connect
from tests.benchmarks.harness import RawConnection, report_rate, timed

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

SIZE = 1 << 30
ROUNDS = 3
COMMAND = ["head", "-c", str(SIZE), "/dev/zero"]


def run(engine: EngineClient) -> None:
    bare: list[float] = []
    ours: list[float] = []
    with engine.sandbox() as sandbox:
        for _ in range(ROUNDS):
            bare.append(timed(read_pipe))
            ours.append(timed(lambda: read_stream(engine, sandbox)))
    baseline = report_rate("bare pipe, 64 KiB reads", SIZE, bare)
    report_rate("process.Process/Start, stdout", SIZE, ours, baseline)


def read_pipe() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(65536):
            pass


def read_stream(engine: EngineClient, sandbox: dict[str, str]) -> None:
    """Read the answer and check its size; in base64 it is 4/3 of the output."""
    message = {"process": {"cmd": COMMAND[0], "args": COMMAND[1:]}, "stdin": False}
    content = connect.encode_envelope(json.dumps(message).encode())
    headers = {**engine.headers(sandbox), "content-type": connect.STREAM_CONTENT_TYPE}
    connection = RawConnection(engine.url)
    connection.send_head("POST", "/process.Process/Start", headers, len(content), content)
    buffer = bytearray(1 << 20)
    size = received = 0
    while buffer[max(0, received - 5) : received] != b"0\r\n\r\n":
        received = connection.socket.recv_into(buffer)
        if not received:
            raise RuntimeError("the stream was cut off")
        size += received
    connection.close()
    if not SIZE * 4 / 3 < size < SIZE * 1.4:
        raise RuntimeError(f"{size} bytes of envelopes")
